-- Questions to a lake of `pitot agent` (docs/lake.md), for DuckDB:
--   duckdb -init LAKE/sql/duckdb.sql < questions.sql
-- Rows of kernel_sketch are parts of sums: they are added up, never counted.

-- slowest_ranks: ranks of each job by their median step, and how much longer it is than that of the others
SELECT job, rank, host, count(*) AS steps, median(duration_ns) AS median_ns,
	median(duration_ns) / median(median(duration_ns)) OVER (PARTITION BY job) AS of_median
FROM step GROUP BY job, rank, host ORDER BY of_median DESC NULLS LAST, job, rank;

-- slow_steps: steps that took twice the median of their process
SELECT s.job, s.rank, s.host, s.start_ns, s.duration_ns, m.median_ns
FROM step s JOIN (SELECT session, median(duration_ns) AS median_ns FROM step GROUP BY session) m USING (session)
WHERE s.duration_ns > 2 * m.median_ns ORDER BY s.duration_ns DESC;

-- gpu_time_by_kernel: what GPUs are busy with
SELECT kind, name, sum(count)::BIGINT AS count, sum(total_ns)::BIGINT AS total_ns, min(min_ns) AS min_ns, max(max_ns) AS max_ns
FROM kernel_sketch GROUP BY kind, name ORDER BY total_ns DESC, kind, name;

-- kernels_by_host: kernels whose mean duration differs most between hosts
SELECT name, max(mean_ns) / min(mean_ns) AS ratio, arg_max(host, mean_ns) AS slowest, max(mean_ns) AS slowest_ns, min(mean_ns) AS fastest_ns
FROM (SELECT name, host, sum(total_ns) / (sum(count) - sum(untimed)) AS mean_ns FROM kernel_sketch
	WHERE kind = 'kernel' AND name <> '(others)' GROUP BY name, host HAVING sum(count) > sum(untimed))
GROUP BY name ORDER BY ratio DESC, name;

-- kernels_since: kernels that got slower from one day to the next
SELECT name, day, mean_ns, mean_ns / lag(mean_ns) OVER (PARTITION BY name ORDER BY day) AS of_day_before
FROM (SELECT name, date AS day, sum(total_ns) / (sum(count) - sum(untimed)) AS mean_ns FROM kernel_sketch
	WHERE kind = 'kernel' AND name <> '(others)' GROUP BY name, date HAVING sum(count) > sum(untimed))
ORDER BY of_day_before DESC NULLS LAST, name, day;

-- work_in_steps: how much GPU work a step has per second: jobs that wait for something else come first
SELECT job, count(*) AS steps, sum(work_ns) / sum(duration_ns) AS work_share, sum(work) / count(*) AS work_per_step
FROM step GROUP BY job ORDER BY work_share, job;

-- copies: how much of the GPU time of a job is copies
SELECT job, sum(total_ns) FILTER (kind = 'memcpy') / sum(total_ns) AS copies FROM kernel_sketch
GROUP BY job HAVING sum(total_ns) > 0 ORDER BY copies DESC NULLS LAST, job;

-- gpu_hours: GPU time of jobs by day
SELECT date AS day, job, count(DISTINCT (host, device)) AS gpus, sum(total_ns) / 3.6e12 AS gpu_hours
FROM kernel_sketch GROUP BY date, job ORDER BY day, gpu_hours DESC;

-- seen: which hosts have shipped, and the newest row of each
SELECT host, count(DISTINCT session) AS processes, max(time_ns) AS newest FROM kernel_sketch GROUP BY host ORDER BY newest;

-- losses: what is missing, and whose
SELECT lost_by, reason, host, job, sum(count)::BIGINT AS count, max(time_ns) AS last FROM loss
GROUP BY lost_by, reason, host, job ORDER BY count DESC;
