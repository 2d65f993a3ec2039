{#
  The constraints of a model with an enforced contract, as [{name, condition}].

  `check` of the model or of a column, and `not_null`. Others can't be enforced, and dbt says so.
#}
{% macro pravega_checks(model) %}
  {% set checks = [] %}
  {% set columns = model.columns.values() | list %}
  {% for constraint in model.constraints if constraint.type == 'check' %}
    {% do checks.append({'name': constraint.name, 'condition': constraint.expression}) %}
  {% endfor %}
  {% for column in columns %}
    {% set name = adapter.quote(column.name) if column.quote else column.name %}
    {% for constraint in column.constraints %}
      {% if constraint.type == 'not_null' %}
        {% do checks.append({'name': constraint.name or column.name ~ '_not_null', 'condition': name ~ ' is not null'}) %}
      {% elif constraint.type == 'check' %}
        {% do checks.append({'name': constraint.name, 'condition': constraint.expression}) %}
      {% endif %}
    {% endfor %}
  {% endfor %}
  {% for check in checks if not check.name %}
    {% do check.update({'name': 'check_' ~ local_md5(check.condition)[:8]}) %}
  {% endfor %}
  {% do return(checks) %}
{% endmacro %}


{# Rows to come are held against the constraints by Spark, those of the model's own query by `create_table_as`. #}
{% macro spark__persist_constraints(relation, model) %}
  {% if config.get('contract').enforced %}
    {% for check in pravega.pravega_checks(model) %}
      {% call statement() %}
        alter table {{ relation }} add constraint {{ adapter.quote(check.name) }} check ({{ check.condition }})
      {% endcall %}
    {% endfor %}
  {% endif %}
{% endmacro %}
