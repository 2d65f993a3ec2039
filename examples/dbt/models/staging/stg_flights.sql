select
  make_date(year, month, day) as flown_on,
  carrier,
  flight,
  tailnum,
  origin,
  dest,
  dep_delay,
  arr_delay,
  distance,
  dep_time is null as cancelled
from {{ source('nyc', 'flights') }}
