{#
  What is in a schema: by two statements, however many tables there are.

  dbt-spark asks by SHOW TABLE EXTENDED, in which Spark leaves out the views of every catalog but its own.
#}
{% macro spark__list_relations_without_caching(relation) %}
  {% set schema = adapter.quote(relation.schema) %}
  {% call statement('pravega_views', fetch_result=True) %}
    show views in {{ schema }}
  {% endcall %}
  {% call statement('pravega_tables', fetch_result=True) %}
    show tables in {{ schema }}
  {% endcall %}
  {% set relations = {} %}
  {% for kind in ('tables', 'views') %}
    {% for row in load_result('pravega_' ~ kind).table %}
      {# Temporary views of the session have no schema. #}
      {% if row[0] %}
        {% set type = 'VIEW' if kind == 'views' else 'MANAGED' %}
        {# By this provider dbt-spark knows tables whose rows can be merged. #}
        {% set merges = '' if kind == 'views' else 'Provider: delta\n' %}
        {% set information = 'Provider: pravega\nType: ' ~ type ~ '\n' ~ merges %}
        {% do relations.update({row[1]: [relation.schema, row[1], false, information]}) %}
      {% endif %}
    {% endfor %}
  {% endfor %}
  {% do return(relations.values() | list) %}
{% endmacro %}
