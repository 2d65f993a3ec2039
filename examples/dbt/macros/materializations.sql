{# `table` models are replaced in one commit, not dropped and made again. #}
{% materialization table, adapter='spark' %}
  {{ return(pravega.materialization_table_spark()) }}
{% endmaterialization %}
