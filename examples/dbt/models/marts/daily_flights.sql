{{ config(materialized='incremental', incremental_strategy='append', tblproperties={'retention': '90 days'}) }}

select
  flights.flown_on,
  flights.origin,
  airports.name as airport,
  count(*) as flights,
  count_if(flights.cancelled) as cancelled
from {{ ref('stg_flights') }} as flights
join {{ ref('airports') }} as airports on flights.origin = airports.faa
{% if is_incremental() %}
where flights.flown_on > (select max(flown_on) from {{ this }})
{% endif %}
group by flights.flown_on, flights.origin, airports.name
