{#
  Spark's SHOW TABLE EXTENDED leaves out the views of every catalog but its own. With these words dbt-spark asks by
  SHOW TABLES and DESCRIBE EXTENDED instead, which know them: else it couldn't turn a view into a table, nor document it.
#}
{% macro spark__list_relations_without_caching(relation) %}
  {% do exceptions.raise_compiler_error('SHOW TABLE EXTENDED is not supported for v2 tables') %}
{% endmacro %}
