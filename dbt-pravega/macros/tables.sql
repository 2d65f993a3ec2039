{#
  CREATE OR REPLACE, which is one commit: readers see the old rows or the new ones.

  A row of the query that breaks a constraint fails the statement, and leaves the old rows.
#}
{% macro spark__create_table_as(temporary, relation, compiled_code, language='sql') %}
  {% if language != 'sql' %}
    {% do exceptions.raise_compiler_error('Spark on Pravega has no Python models: they need a cluster of Databricks') %}
  {% elif temporary %}
    {{ create_temporary_view(relation, compiled_code) }}
  {% else %}
    create or replace table {{ relation }}
    {{ options_clause() }}
    {{ tblproperties_clause() }}
    {{ partition_cols(label='partitioned by') }}
    {{ clustered_cols(label='clustered by') }}
    {{ comment_clause() }}
    as
    {% if config.get('contract').enforced %}
      {{ get_assert_columns_equivalent(compiled_code) }}
      {{ get_select_subquery(compiled_code) }}
      {% for check in pravega.pravega_checks(model) %}
        {{ 'where' if loop.first else 'and' }}
        {% set message = 'a row breaks constraint "' ~ check.name ~ '": ' ~ check.condition %}
        if(coalesce(({{ check.condition }}), true), true, raise_error('{{ message | replace("\\", "\\\\") | replace("'", "\\'") }}'))
      {% endfor %}
    {% else %}
      {{ compiled_code }}
    {% endif %}
  {% endif %}
{% endmacro %}


{#
  The table's properties, with the primary key that the rows of a merged model and of a snapshot have.
#}
{% macro spark__tblproperties_clause() %}
  {% set properties = dict(config.get('tblproperties') or {}) %}
  {% set key = pravega.pravega_primary_key() %}
  {% if key %}
    {% do properties.setdefault('primary-key', key) %}
  {% endif %}
  {% if properties %}
    tblproperties (
      {% for name, value in properties.items() %}
        '{{ name }}' = '{{ value }}'{{ ',' if not loop.last }}
      {% endfor %}
    )
  {% endif %}
{% endmacro %}


{# Columns, separated by commas; none for a model whose rows don't change. #}
{% macro pravega_primary_key() %}
  {% if model.resource_type == 'snapshot' %}
    {% set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() %}
    {% do return(names.dbt_scd_id) %}
  {% elif config.get('incremental_strategy') == 'merge' and config.get('unique_key') %}
    {% set key = config.get('unique_key') %}
    {% do return(key if key is string else key | unique | join(', ')) %}
  {% endif %}
  {% do return('') %}
{% endmacro %}


{#
  The materialization `table` without a DROP, unless a view is in its place or --full-refresh is given.

  dbt takes it from a package only where the project says so: see docs/dbt.md.
#}
{% materialization table, adapter='spark', supported_languages=['sql'] %}
  {% set before = adapter.get_relation(database=database, schema=schema, identifier=model.alias) %}
  {% set target_relation = this.incorporate(type='table') %}
  {{ run_hooks(pre_hooks) }}
  {% if before is not none and (before.is_view or should_full_refresh()) %}
    {% do adapter.drop_relation(before) %}
  {% endif %}
  {% call statement('main') %}
    {{ create_table_as(false, target_relation, compiled_code) }}
  {% endcall %}
  {% do apply_grants(target_relation, config.get('grants'), should_revoke(before, full_refresh_mode=True)) %}
  {% do persist_docs(target_relation, model) %}
  {% do persist_constraints(target_relation, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{#
  A model without a unique key has no row that a merged one could change: the rows are added.

  With `on_schema_change: append_new_columns` the query may have lost a column: what rows have in it stays, and new rows
  have nothing. dbt-spark merges all columns of the table, also those that aren't there.
#}
{% macro spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates=none) %}
  {% do pravega.pravega_add_checks(target, model) %}
  {% if not unique_key %}
    {{ get_insert_into_sql(source, target) }}
  {% else %}
    {% set merge = dbt.spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) %}
    {% if config.get('on_schema_change') == 'append_new_columns' %}
      {% set merge = merge | replace('merge into', 'merge with schema evolution into', 1) %}
    {% endif %}
    {{ merge }}
  {% endif %}
{% endmacro %}
