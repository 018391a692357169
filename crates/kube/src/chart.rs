//! Settings of a HAMi cluster that manifests leave to it: from the values of HAMi's chart, or from
//! the ConfigMap of its scheduler.
//!
//! Promises: a name or a number that cannot be understood is an error; what is not there is left
//! open.
//!
//! Does not render the chart.

use crate::claim::MOST_MIB;
use crate::convert::Unreadable;
use crate::names::ResourceName;
use crate::quantity;
use crate::yaml::{self, Node};

/// Keys of the chart's values and of the scheduler's configuration, by the resource that they name.
const NAMES: [(&str, &str); 10] = [
    ("resourceName", "gpu"),
    ("resourceCountName", "gpu"),
    ("resourceMem", "gpumem"),
    ("resourceMemoryName", "gpumem"),
    ("resourceMemPercentage", "gpumem-percentage"),
    ("resourceMemoryPercentageName", "gpumem-percentage"),
    ("resourceCores", "gpucores"),
    ("resourceCoreName", "gpucores"),
    ("resourcePriority", "priority"),
    ("resourcePriorityName", "priority"),
];

/// Settings of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chart {
    pub(crate) names: Vec<ResourceName>,
    pub(crate) default_memory_mib: Option<u64>,
    pub(crate) default_cores: Option<u64>,
}

/// Reads such a file.
///
/// # Errors
/// Where it is no YAML, has none of these settings, or has a value that is not possible.
pub(crate) fn read(bytes: &[u8]) -> Result<Chart, Unreadable> {
    let mut chart = Chart::default();
    let mut count = 0;
    for document in documents(bytes)? {
        count += settings(&document, &mut chart)?;
        let data = document.get("data").map(Node::entries).unwrap_or_default();
        for text in data.iter().filter_map(|entry| entry.value.text()) {
            for inner in documents(text.as_bytes()).unwrap_or_default() {
                count += inner.get("nvidia").map_or(Ok(0), |it| settings(it, &mut chart))?;
            }
        }
    }
    if count == 0 {
        let words = "it has no settings of HAMi's: give the chart's values (helm get values -a hami), or its ConfigMap hami-scheduler-device";
        return Err(Unreadable { line: 0, words: words.to_owned() });
    }
    Ok(chart)
}

fn documents(bytes: &[u8]) -> Result<Vec<Node>, Unreadable> {
    let read = yaml::read(bytes);
    let read = read.map_err(|error| Unreadable { line: error.line, words: error.words })?;
    Ok(read.into_iter().map(|document| document.root).collect())
}

/// Takes what a mapping has; the number of settings.
fn settings(node: &Node, chart: &mut Chart) -> Result<usize, Unreadable> {
    let mut count = 0;
    for entry in node.entries() {
        let key = &*entry.key.text;
        let bad = |words: String| Unreadable { line: entry.line, words: format!("{key}: {words}") };
        let text = entry.value.text().unwrap_or_default();
        if let Some((_, known)) = NAMES.iter().find(|(name, _)| *name == key) {
            let name: ResourceName = format!("{known}={text}").parse().map_err(bad)?;
            count += 1;
            if !name.is_usual() {
                chart.names.push(name);
            }
            continue;
        }
        let most = match key {
            "defaultMemory" | "defaultMem" => MOST_MIB,
            "defaultCores" => 100,
            _ => continue,
        };
        let value = quantity::whole(&entry.value).map_err(|reason| bad(reason.to_owned()))?;
        if value > most {
            return Err(bad(format!("{value} is more than {most}")));
        }
        count += 1;
        let said = (value > 0).then_some(value);
        if key == "defaultCores" {
            chart.default_cores = said;
        } else {
            chart.default_memory_mib = said;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_the_config_map_say_the_same() {
        let values = "resourceName: nvidia.com/gpu\nresourceMem: example.com/vgpu-memory\nresourceCores: nvidia.com/gpucores\ndefaultMem: 4096\ndefaultCores: 0\n";
        let map = "kind: ConfigMap\ndata:\n  device-config.yaml: |\n    nvidia:\n      resourceCountName: nvidia.com/gpu\n      resourceMemoryName: example.com/vgpu-memory\n      defaultMemory: 4096\n    cambricon: {resourceMemoryName: x}\n";
        let chart = read(values.as_bytes()).unwrap();
        assert_eq!(chart, read(map.as_bytes()).unwrap());
        let name = "gpumem=example.com/vgpu-memory".parse().unwrap();
        let wanted =
            Chart { names: vec![name], default_memory_mib: Some(4096), default_cores: None };
        assert_eq!(chart, wanted);
        for (text, words) in [
            ("a: b\n", "no settings of HAMi's"),
            ("a: [\n", "not YAML"),
            ("resourceMem: vgpu memory\n", "resourceMem: "),
            ("resourceName: x/y\ndefaultCores: 101\n", "101 is more than 100"),
            ("defaultMem: 4Gi\n", "defaultMem: "),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.words.contains(words), "{text}: {error:?}");
        }
    }
}
