{# dbt-spark looks for each column's type anew in each row, so that a seed of 20,000 rows takes many minutes. #}
{% macro spark__load_csv_rows(model, agate_table) %}
  {% set given = model['config'].get('column_types', {}) %}
  {% set values = [] %}
  {% for name in agate_table.column_names %}
    {% set type = given.get(name) or adapter.convert_type(agate_table, loop.index0) %}
    {% do values.append('cast(' ~ get_binding_char() ~ ' as ' ~ type ~ ')') %}
  {% endfor %}
  {% set row_values = '(' ~ values | join(', ') ~ ')' %}
  {% set statements = [] %}
  {% for rows in agate_table.rows | batch(get_batch_size()) %}
    {% set bindings = [] %}
    {% for row in rows %}
      {% do bindings.extend(row) %}
    {% endfor %}
    {% set statement = 'insert into ' ~ this.render() ~ ' values ' ~ ([row_values] * (rows | length)) | join(', ') %}
    {% do adapter.add_query(statement, bindings=bindings, abridge_sql_log=True) %}
    {% do statements.append(statement) %}
  {% endfor %}
  {{ return(statements | first) }}
{% endmacro %}


{# A seed's table has the properties that are given for it: so it can have a primary key. #}
{% macro spark__create_csv_table(model, agate_table) %}
  {% set given = model['config'].get('column_types', {}) %}
  {% set columns = [] %}
  {% for name in agate_table.column_names %}
    {% set type = given.get(name) or adapter.convert_type(agate_table, loop.index0) %}
    {% do columns.append(adapter.quote_seed_column(name, model['config'].get('quote_columns')) ~ ' ' ~ type) %}
  {% endfor %}
  {% set sql %}
    create table {{ this.render() }} ({{ columns | join(', ') }})
    {{ partition_cols(label='partitioned by') }}
    {{ clustered_cols(label='clustered by') }}
    {{ comment_clause() }}
    {{ tblproperties_clause() }}
  {% endset %}
  {% call statement('_') %}
    {{ sql }}
  {% endcall %}
  {{ return(sql) }}
{% endmacro %}
