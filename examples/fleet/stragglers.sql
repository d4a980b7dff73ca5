-- Who of a job's ranks comes last to collectives, and how long the others wait for it.
-- Runs on DuckDB and on Spark. View `parts` has a row for each rank in each collective: job, communicator, function, sequence,
-- rank, start_ns. delayed_ns is the sum over all others, waited_ns that of the rank itself.
WITH arrivals AS (
	SELECT job, communicator, function, sequence, rank, start_ns,
		count(*) OVER collective AS ranks,
		max(start_ns) OVER collective AS last_ns,
		row_number() OVER (PARTITION BY job, communicator, function, sequence ORDER BY start_ns DESC, rank) AS place
	FROM parts
	WINDOW collective AS (PARTITION BY job, communicator, function, sequence)
), waits AS (
	SELECT job, rank, place, last_ns - start_ns AS wait_ns,
		sum(last_ns - start_ns) OVER (PARTITION BY job, communicator, function, sequence) AS all_ns
	FROM arrivals
	WHERE ranks > 1
)
SELECT job, rank,
	count(*) AS collectives,
	count(CASE WHEN place = 1 THEN 1 END) AS last,
	CAST(coalesce(sum(CASE WHEN place = 1 THEN all_ns END), 0) AS BIGINT) AS delayed_ns,
	CAST(sum(wait_ns) AS BIGINT) AS waited_ns
FROM waits
GROUP BY job, rank
ORDER BY delayed_ns DESC, job, rank
