{{ config(clustered_by='carrier', buckets=2) }}

select
  flights.carrier,
  airlines.name,
  count(*) as flights,
  count_if(flights.cancelled) as cancelled,
  avg(flights.dep_delay) as mean_delay
from {{ ref('stg_flights') }} as flights
join {{ source('nyc', 'airlines') }} as airlines on flights.carrier = airlines.carrier
group by flights.carrier, airlines.name
