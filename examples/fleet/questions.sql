-- Questions to a lake of `pitot agent` (docs/lake.md), for DuckDB, ClickHouse and Spark:
--   duckdb -init LAKE/sql/duckdb.sql < questions.sql
-- Rows of kernel_sketch are parts of sums: they are added up, never counted.
-- Times are TIMESTAMP of nanoseconds in DuckDB and ClickHouse, and numbers of nanoseconds in Spark.

-- slowest_ranks: ranks of each job by their median step, and how much longer it is than that of the others
SELECT job, rank, host, steps, median_ns, median_ns / median(median_ns) OVER (PARTITION BY job) AS of_median
FROM (SELECT job, rank, host, count(*) AS steps, median(duration_ns) AS median_ns FROM step GROUP BY job, rank, host) AS r
ORDER BY of_median DESC NULLS LAST, job NULLS LAST, rank NULLS LAST, host;

-- slow_steps: steps that took twice the median of their process
SELECT s.job AS job, s.rank AS rank, s.host AS host, s.start_ns AS start_ns, s.duration_ns AS duration_ns, m.median_ns AS median_ns
FROM step AS s JOIN (SELECT session, median(duration_ns) AS median_ns FROM step GROUP BY session) AS m ON s.session = m.session
WHERE s.duration_ns > 2 * m.median_ns ORDER BY duration_ns DESC, start_ns, host;

-- gpu_time_by_kernel: what GPUs are busy with
SELECT kind, name, sum(count) AS count_of_work, sum(total_ns) AS sum_ns, min(min_ns) AS shortest_ns, max(max_ns) AS longest_ns
FROM kernel_sketch GROUP BY kind, name ORDER BY sum_ns DESC, kind, name;

-- kernels_by_host: kernels whose mean duration differs most between hosts
SELECT name, max(mean_ns) / min(mean_ns) AS ratio, max(CASE WHEN place = 1 THEN host END) AS slowest, max(mean_ns) AS slowest_ns,
	min(mean_ns) AS fastest_ns
FROM (SELECT name, host, mean_ns, row_number() OVER (PARTITION BY name ORDER BY mean_ns DESC, host) AS place
	FROM (SELECT name, host, CAST(sum(total_ns) AS DOUBLE) / (sum(count) - sum(untimed)) AS mean_ns FROM kernel_sketch
		WHERE kind = 'kernel' AND name <> '(others)' GROUP BY name, host HAVING sum(count) > sum(untimed)) AS k) AS p
GROUP BY name ORDER BY ratio DESC, name;

-- kernels_since: kernels that got slower from one day to the next
SELECT name, day, mean_ns, mean_ns / before_ns AS of_day_before
FROM (SELECT name, day, mean_ns, lag(mean_ns) OVER (PARTITION BY name ORDER BY day) AS before_ns
	FROM (SELECT name, date AS day, CAST(sum(total_ns) AS DOUBLE) / (sum(count) - sum(untimed)) AS mean_ns FROM kernel_sketch
		WHERE kind = 'kernel' AND name <> '(others)' GROUP BY name, date HAVING sum(count) > sum(untimed)) AS k) AS d
WHERE before_ns > 0 ORDER BY of_day_before DESC, name, day;

-- work_in_steps: how much GPU work a step has per second: jobs that wait for something else come first
SELECT job, count(*) AS steps, CAST(sum(work_ns) AS DOUBLE) / sum(duration_ns) AS work_share, CAST(sum(work) AS DOUBLE) / count(*) AS work_per_step
FROM step GROUP BY job ORDER BY work_share, job NULLS LAST;

-- copies: how much of the GPU time of a job is copies
SELECT job, CAST(sum(CASE WHEN kind = 'memcpy' THEN total_ns ELSE 0 END) AS DOUBLE) / sum(total_ns) AS copies FROM kernel_sketch
GROUP BY job HAVING sum(total_ns) > 0 ORDER BY copies DESC, job NULLS LAST;

-- gpu_hours: GPU time of jobs by day
SELECT day, job, count(*) AS gpus, sum(sum_ns) / 3.6e12 AS gpu_hours
FROM (SELECT date AS day, job, host, device, sum(total_ns) AS sum_ns FROM kernel_sketch GROUP BY date, job, host, device) AS g
GROUP BY day, job ORDER BY day, gpu_hours DESC, job NULLS LAST;

-- seen: which hosts have shipped, and the newest row of each
SELECT host, count(DISTINCT session) AS processes, max(time_ns) AS newest FROM kernel_sketch GROUP BY host ORDER BY newest, host;

-- losses: what is missing, and whose
SELECT lost_by, reason, host, job, sum(count) AS count_of_items, max(time_ns) AS newest FROM loss
GROUP BY lost_by, reason, host, job ORDER BY count_of_items DESC, lost_by, reason, host, job NULLS LAST;
