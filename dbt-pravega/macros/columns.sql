{# The comments of all columns by one statement, so that they are one new version of the schema. #}
{% macro spark__alter_column_comment(relation, column_dict) %}
  {% if not relation.is_view and column_dict %}
    {% if (config.get('tblproperties') or {}).get('format') == 'protobuf' %}
      {% do exceptions.warn('columns of ' ~ relation ~ ' get no comments: Protobuf schemas keep none') %}
    {% else %}
      {% set comments = [] %}
      {% for name, column in column_dict.items() %}
        {% set text = (column['description'] or '') | replace('\\', '\\\\') | replace("'", "\\'") %}
        {% do comments.append(adapter.quote(name) ~ " comment '" ~ text ~ "'") %}
      {% endfor %}
      {% do run_query('alter table ' ~ relation ~ ' alter column ' ~ comments | join(', ')) %}
    {% endif %}
  {% endif %}
{% endmacro %}


{# on_schema_change: dbt-spark adds columns, but drops none. #}
{% macro spark__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
  {% if remove_columns %}
    {% do run_query('alter table ' ~ relation ~ ' drop columns ' ~ remove_columns | map(attribute='quoted') | join(', ')) %}
  {% endif %}
  {% if add_columns %}
    {% set columns = [] %}
    {% for column in add_columns %}
      {% do columns.append(column.quoted ~ ' ' ~ column.data_type) %}
    {% endfor %}
    {% do run_query('alter table ' ~ relation ~ ' add columns ' ~ columns | join(', ')) %}
  {% endif %}
{% endmacro %}
