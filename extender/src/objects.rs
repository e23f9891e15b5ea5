//! Pods and nodes as the API server sends them, reduced to what decides: what is not named here is skipped while it is
//! read. Read by the watches and by [`crate::binding`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::{ClusterResourceScope, NamespaceResourceScope, ObjectMeta, Resource};
use neuron_core::pod::{PodSpec, PodStatus};
use serde::{Deserialize, Deserializer};

/// A pod.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ApiPod {
    /// Name, namespace, UID, annotations.
    #[serde(deserialize_with = "used")]
    pub(crate) metadata: ObjectMeta,
    /// What it asks for and where it runs.
    pub(crate) spec: PodSpec,
    /// How it fares.
    pub(crate) status: Option<PodStatus>,
}

/// A node.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ApiNode {
    /// Name, labels, annotations.
    #[serde(deserialize_with = "used")]
    pub(crate) metadata: ObjectMeta,
}

/// The part of an object's metadata that is used, among it what kube's watch needs. The rest, `managedFields` above
/// all, can be half of an object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UsedMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

fn used<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let UsedMetadata { name, namespace, uid, resource_version, labels, annotations } =
        UsedMetadata::deserialize(deserializer)?;
    Ok(ObjectMeta { name, namespace, uid, resource_version, labels, annotations, ..ObjectMeta::default() })
}

/// The resource is that of the Kubernetes type.
macro_rules! resource_of {
    ($ours:ty, $theirs:ty, $scope:ty) => {
        impl Resource for $ours {
            type DynamicType = ();
            type Scope = $scope;

            fn kind(_: &()) -> Cow<'_, str> {
                <$theirs as Resource>::kind(&())
            }

            fn group(_: &()) -> Cow<'_, str> {
                <$theirs as Resource>::group(&())
            }

            fn version(_: &()) -> Cow<'_, str> {
                <$theirs as Resource>::version(&())
            }

            fn plural(_: &()) -> Cow<'_, str> {
                <$theirs as Resource>::plural(&())
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource_of!(ApiPod, Pod, NamespaceResourceScope);
resource_of!(ApiNode, Node, ClusterResourceScope);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_is_read_and_the_rest_is_not() {
        let text = r#"{"metadata": {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": "7",
            "annotations": {"a": "b"}, "managedFields": [{"fieldsV1": {"f:spec": {}}}]},
            "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i"}]}}"#;
        let pod: ApiPod = serde_json::from_str(text).unwrap();
        assert_eq!(pod.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(pod.metadata.annotations.unwrap()["a"], "b");
        assert_eq!(pod.metadata.managed_fields, None);
        assert_eq!(pod.spec.node_name.as_deref(), Some("n"));
    }

    #[test]
    fn both_are_where_kubernetes_keeps_them() {
        assert_eq!(ApiPod::url_path(&(), Some("d")), "/api/v1/namespaces/d/pods");
        assert_eq!(ApiNode::url_path(&(), None), "/api/v1/nodes");
    }
}
