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
