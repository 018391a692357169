//! Commands of the documentation that no test of this module runs, and why.
//!
//! Promises: whatever is neither here nor on a page that is run fails a test, and so does an entry that no page has.

/// Commands of one page.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) page: &'static str,
    /// As they begin.
    pub(crate) commands: &'static [&'static str],
    pub(crate) why: &'static str,
}

const fn left(page: &'static str, commands: &'static [&'static str], why: &'static str) -> Left {
    Left { page, commands, why }
}

pub(crate) const LEFT: &[Left] = &[
    left("README.md", &["divvy top"], "a screen; `divvy top --once` is in the tutorial"),
    left("README.md", &["cargo xtask demo", "cargo xtask test"], "what this test is a part of"),
    left("docs/alerts.md", &["promtool"], "cargo xtask test metrics"),
    left("docs/guide/README.md", &["divvy demo --sim"], "tests/e2e/json.rs"),
    left(
        "docs/guide/bench.md",
        &["divvy bench"],
        "minutes long; tests/e2e/bench.rs has short ones",
    ),
    left("docs/guide/cdi.md", &["divvy cdi"], "writes below /etc; a recipe has it in a folder"),
    left("docs/guide/cdi.md", &["docker run"], "needs docker, an image and a card"),
    left(
        "docs/guide/install.md",
        &["tar xzf", "divvy-0.1.0-", "sha256sum", "dpkg -i", "rpm -i", "systemctl", "podman load"],
        "needs a release; cargo xtask test release",
    ),
    left("docs/guide/config.md", &["divvy run"], "crates/divvy/tests/config.rs"),
    left("docs/guide/install.md", &["skopeo"], "needs a registry"),
    left(
        "docs/guide/install.md",
        &["divvy uninstall"],
        "removes below /usr/local; crates/divvy/tests/install.rs",
    ),
    left("docs/guide/install.md", &["cargo install", "divvy run"], "builds the command anew"),
    left("docs/guide/install.md", &["cargo xtask release"], "cargo xtask test release"),
    left(
        "docs/guide/kubernetes.md",
        &["kubectl"],
        "needs a cluster; cargo xtask test kube applies the same objects",
    ),
    left(
        "docs/guide/kubernetes-install.md",
        &["POD=", "nvidia-ctk", "cargo xtask release", "skopeo", "kubectl", "helm"],
        "needs a card, a registry and a cluster; cargo xtask test kube applies the same objects",
    ),
    left("docs/guide/kubernetes-explain.md", &["kubectl"], "needs a cluster of machines"),
    left("docs/guide/kubernetes-operate.md", &["kubectl", "POD="], "needs a cluster of machines"),
    left(
        "docs/guide/kubernetes-hami.md",
        &["kubectl", "divvy kube convert"],
        "needs a cluster of machines in which HAMi runs",
    ),
    left(
        "docs/guide/kubernetes-agent.md",
        &["NODE_NAME=n1 divvy kube agent"],
        "needs a kubelet; cargo xtask test kube",
    ),
    left(
        "docs/guide/kubernetes-explain.md",
        &["divvy kube explain"],
        "needs a cluster; cargo xtask test kube",
    ),
    left(
        "docs/guide/kubernetes-controller.md",
        &["divvy kube controller"],
        "needs an API server; cargo xtask test kube",
    ),
    left("docs/guide/kubernetes-pods.md", &["chcon"], "needs SELinux; pods/odd.rs gives labels"),
    left(
        "docs/guide/kubernetes-plugin.md",
        &["NODE_NAME=n1 divvy kube plugin", "kubectl", "helm"],
        "needs a kubelet; cargo xtask test kube, crates/kube/tests/plugin.rs",
    ),
    left("docs/guide/kubernetes-resize.md", &["kubectl"], "cargo xtask test kube does the same"),
    left("docs/guide/oversubscribe.md", &["divvy "], "needs more than a card; handovers.rs"),
    left("docs/guide/recipes.md", &["divvy cdi", "podman run"], "documents/podman.rs"),
    left("docs/guide/recipes.md", &["srun"], "documents/slurm.rs"),
    left("docs/guide/recipes.md", &["systemd-run"], "needs systemd as the first process"),
    left("docs/guide/recipes.md", &["jupyter"], "needs Jupyter"),
    left("docs/guide/run.md", &["divvy run [--memory"], "a synopsis"),
    left("docs/guide/set.md", &["divvy set train --oversubscribe"], "tests/e2e/switches.rs"),
    left("docs/guide/top.md", &["divvy top"], "a test of the command compares the screen"),
    left("docs/guide/upgrade.md", &["./bin/divvy install"], "writes below /usr/local; upgrade.rs"),
    left("docs/hami-migration.md", &["sudo divvy doctor --hami"], "shows a node's containers"),
    left("docs/metrics.md", &["curl"], "tests/e2e/pages.rs asks the same"),
    left("docs/nvshare-migration.md", &["divvy ", "LD_PRELOAD="], "tests/e2e/nvshare.rs"),
];
