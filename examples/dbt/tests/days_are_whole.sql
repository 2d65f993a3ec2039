-- A day that was there before must not be appended again, nor be left out.
select flown_on, origin
from {{ ref('daily_flights') }}
group by flown_on, origin
having count(*) > 1

union all

select null, null
where (select sum(flights) from {{ ref('daily_flights') }}) <> (select count(*) from {{ ref('stg_flights') }})
