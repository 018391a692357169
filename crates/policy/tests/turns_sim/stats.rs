//! What is measured: work done by windows, latencies of requests, the daemon's own cost.

/// Books of one run.
pub(crate) struct Ledger {
    /// For each tenant, when a kernel ended and how long it was.
    ends: Vec<Vec<(u64, u64)>>,
    latencies: Vec<Vec<u64>>,
    pub(crate) steps: u64,
    pub(crate) cpu_ns: u64,
    first_ns: u64,
    last_ns: u64,
}

impl Ledger {
    pub(crate) fn new(tenants: usize) -> Self {
        Self {
            ends: vec![Vec::new(); tenants],
            latencies: vec![Vec::new(); tenants],
            steps: 0,
            cpu_ns: 0,
            first_ns: 0,
            last_ns: 0,
        }
    }

    pub(crate) fn done(&mut self, row: usize, now_ns: u64, work_ns: u64) {
        self.ends[row].push((now_ns, work_ns));
    }

    pub(crate) fn answered(&mut self, row: usize, latency_ns: u64) {
        self.latencies[row].push(latency_ns);
    }

    pub(crate) fn step(&mut self, now_ns: u64, cpu_ns: u64) {
        self.steps += 1;
        self.cpu_ns += cpu_ns;
        self.last_ns = now_ns;
        if self.first_ns == 0 {
            self.first_ns = now_ns;
        }
    }

    /// Part of a core the daemon used.
    pub(crate) fn cpu(&self) -> f64 {
        self.cpu_ns as f64 / (self.last_ns - self.first_ns).max(1) as f64
    }

    /// Part of the time between the two in which the tenant's work was done.
    pub(crate) fn share(&self, row: usize, from_ns: u64, to_ns: u64) -> f64 {
        let ends = &self.ends[row];
        let first = ends.partition_point(|(at, _)| *at < from_ns);
        let last = ends.partition_point(|(at, _)| *at < to_ns);
        let work_ns: u64 = ends[first..last].iter().map(|(_, work)| work).sum();
        work_ns as f64 / (to_ns - from_ns) as f64
    }

    /// The same for each window.
    pub(crate) fn windows(&self, row: usize, from_ns: u64, to_ns: u64, width_ns: u64) -> Vec<f64> {
        let count = (to_ns - from_ns) / width_ns;
        (0..count)
            .map(|i| self.share(row, from_ns + i * width_ns, from_ns + (i + 1) * width_ns))
            .collect()
    }

    /// Latency that a part of the requests stays below.
    pub(crate) fn latency_ns(&self, row: usize, quantile: f64) -> u64 {
        let mut all = self.latencies[row].clone();
        all.sort_unstable();
        let index = (all.len() as f64 * quantile).ceil() as usize;
        all.get(index.saturating_sub(1)).copied().unwrap_or(0)
    }
}

/// Coefficient of variation.
pub(crate) fn variation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
    square.sqrt() / mean
}

/// Jain's index of fairness.
pub(crate) fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    sum * sum / (values.len() as f64 * squares)
}
