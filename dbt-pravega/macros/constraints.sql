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
  {% do pravega.pravega_add_checks(relation, model) %}
{% endmacro %}


{#
  Adds the constraints of an enforced contract that a table doesn't have: all of a new one, and those that a run before
  has failed to add.

  A column that is NOT NULL by itself, as each one of a key, holds its `not_null` without a constraint. Spark has no plan
  for one that is always true.
#}
{% macro pravega_add_checks(relation, model) %}
  {% if (config.get('contract') or {}).enforced %}
    {% set re = modules.re %}
    {% set made = run_query('show create table ' ~ relation).columns[0].values()[0] %}
    {% set lines = re.sub('<[^\n]*>', '', made) %}
    {% set free = [] %}
    {% for column in model.columns.values() %}
      {% if re.search('(?im)^\\W*' ~ re.escape(column.name) ~ '`?\\s+\\S+\\s+NOT NULL', lines) %}
        {% do free.extend([column.name ~ ' is not null', adapter.quote(column.name) ~ ' is not null']) %}
      {% endif %}
    {% endfor %}
    {% for check in pravega.pravega_checks(model) if check.condition | trim | lower not in free | map('lower') | list %}
      {% if not re.search('(?i)CONSTRAINT\\s+`?' ~ re.escape(check.name) ~ '`?\\s+CHECK', made) %}
        {% call statement() %}
          alter table {{ relation }} add constraint {{ adapter.quote(check.name) }} check ({{ check.condition }})
        {% endcall %}
      {% endif %}
    {% endfor %}
  {% endif %}
{% endmacro %}
