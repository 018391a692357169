//! Messages of the kubelet's services, made from `proto/` by the build script; each module is one file there.

macro_rules! wire {
    ($($about:literal $name:ident $package:literal;)*) => {$(
        #[doc = $about]
        #[allow(missing_docs, unreachable_pub, clippy::all, clippy::too_many_lines, clippy::allow_attributes_without_reason, reason = "generated")]
        pub mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), "/", $package, ".rs"));
        }
    )*};
}

wire! {
    "The agent's own service." agent "divvy.agent.v1";
    "Device plugins." deviceplugin "v1beta1";
    "Dynamic resource allocation, v1." dra_v1 "k8s.io.kubelet.pkg.apis.dra.v1";
    "Dynamic resource allocation, v1beta1." dra_v1beta1 "k8s.io.kubelet.pkg.apis.dra.v1beta1";
    "Health of devices, v1." health_v1 "v1";
    "Health of devices, v1alpha1." health_v1alpha1 "v1alpha1";
    "Resources of pods." podresources "v1";
    "Registration of plugins." registration "pluginregistration";
}
