{#
  The columns of a table, each with its name.

  dbt-spark gives the rows of DESCRIBE, which have none. So the records that `hard_deletes: new_record` writes of
  deleted rows had a null in each column.
#}
{% macro spark__get_columns_in_relation(relation) %}
  {{ return(adapter.get_columns_in_relation(relation)) }}
{% endmacro %}


{#
  Adds the columns that a snapshot's table doesn't have yet.

  With a list of unique keys dbt-spark adds its own helping columns, too, and the next statement finds them twice.
#}
{% macro spark__create_columns(relation, columns) %}
  {% set helping = [] %}
  {% if config.get('unique_key') is not string %}
    {% for key in config.get('unique_key') or [] %}
      {% do helping.append('dbt_unique_key_' ~ loop.index) %}
    {% endfor %}
  {% endif %}
  {% set added = columns | rejectattr('name', 'in', helping) | list %}
  {% if added %}
    {{ dbt.spark__create_columns(relation, added) }}
  {% endif %}
{% endmacro %}
