#!/bin/sh
# An order and the timer that ends it, in one transaction: DATABASE_URL=… sh order.sh 42
set -eu

psql "$DATABASE_URL" --no-psqlrc --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 --set id="$1" <<'SQL'
BEGIN;
INSERT INTO orders (id, state) VALUES (:'id', 'unpaid');
SELECT key, outcome FROM tocsin.schedule(
  'order.unpaid', 'order-' || :'id', delay => interval '30 minutes',
  payload => jsonb_build_object('orderId', :'id'::integer));
COMMIT;
SQL
