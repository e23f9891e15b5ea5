//! Messages of the crate `k8s-pb` as the JSON that says the same. They have no serde.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_pb::api::core::v1 as pb;
use k8s_pb::apimachinery::pkg::api::resource::Quantity;
use k8s_pb::apimachinery::pkg::apis::meta::v1 as meta;
use serde::Serialize;
use serde_json::{Map, Value, json};

pub(crate) fn node(node: pb::Node) -> Value {
    let (spec, status) = (node.spec.unwrap_or_default(), node.status.unwrap_or_default());
    let taint = |taint: pb::Taint| {
        object([
            ("key", text(taint.key)),
            ("value", text(taint.value)),
            ("effect", text(taint.effect)),
            ("timeAdded", time(taint.time_added)),
        ])
    };
    let condition = |condition: pb::NodeCondition| {
        object([
            ("type", text(condition.r#type)),
            ("status", text(condition.status)),
            ("lastHeartbeatTime", time(condition.last_heartbeat_time)),
            ("lastTransitionTime", time(condition.last_transition_time)),
            ("reason", text(condition.reason)),
            ("message", text(condition.message)),
        ])
    };
    let address = |address: pb::NodeAddress| {
        object([("type", text(address.r#type)), ("address", text(address.address))])
    };
    let image = |image: pb::ContainerImage| {
        object([("names", set(image.names)), ("sizeBytes", number(image.size_bytes))])
    };
    let volume = |volume: pb::AttachedVolume| {
        object([("name", text(volume.name)), ("devicePath", text(volume.device_path))])
    };
    let handler = |handler: pb::NodeRuntimeHandler| {
        let features = handler.features.map(|features| {
            object([
                ("recursiveReadOnlyMounts", flag(features.recursive_read_only_mounts)),
                ("userNamespaces", flag(features.user_namespaces)),
            ])
        });
        object([("name", text(handler.name)), ("features", features)])
    };
    let endpoints = status.daemon_endpoints.map(|endpoints| {
        let kubelet = endpoints.kubelet_endpoint.map(|endpoint| object([("Port", number(endpoint.port))]));
        object([("kubeletEndpoint", kubelet)])
    });
    let features = status
        .features
        .map(|features| object([("supplementalGroupsPolicy", flag(features.supplemental_groups_policy))]));
    object([
        ("metadata", Some(metadata(node.metadata.unwrap_or_default()))),
        (
            "spec",
            Some(object([
                ("podCIDR", text(spec.pod_cidr)),
                ("podCIDRs", set(spec.pod_cid_rs)),
                ("providerID", text(spec.provider_id)),
                ("unschedulable", flag(spec.unschedulable)),
                ("taints", all(spec.taints, taint)),
            ])),
        ),
        (
            "status",
            Some(object([
                ("capacity", quantities(status.capacity)),
                ("allocatable", quantities(status.allocatable)),
                ("phase", text(status.phase)),
                ("conditions", all(status.conditions, condition)),
                ("addresses", all(status.addresses, address)),
                ("daemonEndpoints", endpoints),
                ("nodeInfo", status.node_info.map(node_info)),
                ("images", all(status.images, image)),
                ("volumesInUse", set(status.volumes_in_use)),
                ("volumesAttached", all(status.volumes_attached, volume)),
                ("runtimeHandlers", all(status.runtime_handlers, handler)),
                ("features", features),
            ])),
        ),
    ])
}

fn node_info(info: pb::NodeSystemInfo) -> Value {
    object([
        ("machineID", text(info.machine_id)),
        ("systemUUID", text(info.system_uuid)),
        ("bootID", text(info.boot_id)),
        ("kernelVersion", text(info.kernel_version)),
        ("osImage", text(info.os_image)),
        ("containerRuntimeVersion", text(info.container_runtime_version)),
        ("kubeletVersion", text(info.kubelet_version)),
        ("kubeProxyVersion", text(info.kube_proxy_version)),
        ("operatingSystem", text(info.operating_system)),
        ("architecture", text(info.architecture)),
        ("swap", info.swap.map(|swap| object([("capacity", number(swap.capacity))]))),
    ])
}

pub(crate) fn pod(pod: pb::Pod) -> Value {
    let (spec, status) = (pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
    let toleration = |toleration: pb::Toleration| {
        object([
            ("key", text(toleration.key)),
            ("operator", text(toleration.operator)),
            ("value", text(toleration.value)),
            ("effect", text(toleration.effect)),
            ("tolerationSeconds", number(toleration.toleration_seconds)),
        ])
    };
    let condition = |condition: pb::PodCondition| {
        object([
            ("type", text(condition.r#type)),
            ("status", text(condition.status)),
            ("lastProbeTime", time(condition.last_probe_time)),
            ("lastTransitionTime", time(condition.last_transition_time)),
            ("reason", text(condition.reason)),
            ("message", text(condition.message)),
        ])
    };
    object([
        ("metadata", Some(metadata(pod.metadata.unwrap_or_default()))),
        (
            "spec",
            Some(object([
                ("containers", all(spec.containers, container)),
                ("initContainers", all(spec.init_containers, container)),
                ("restartPolicy", text(spec.restart_policy)),
                ("terminationGracePeriodSeconds", number(spec.termination_grace_period_seconds)),
                ("dnsPolicy", text(spec.dns_policy)),
                ("securityContext", spec.security_context.map(security_context)),
                ("nodeSelector", map(spec.node_selector)),
                ("serviceAccountName", text(spec.service_account_name)),
                ("nodeName", text(spec.node_name)),
                ("hostNetwork", flag(spec.host_network)),
                ("schedulerName", text(spec.scheduler_name)),
                ("priorityClassName", text(spec.priority_class_name)),
                ("priority", number(spec.priority)),
                ("tolerations", all(spec.tolerations, toleration)),
            ])),
        ),
        (
            "status",
            Some(object([
                ("phase", text(status.phase)),
                ("reason", text(status.reason)),
                ("message", text(status.message)),
                ("hostIP", text(status.host_ip)),
                ("podIP", text(status.pod_ip)),
                ("startTime", time(status.start_time)),
                ("qosClass", text(status.qos_class)),
                ("conditions", all(status.conditions, condition)),
                ("containerStatuses", all(status.container_statuses, container_status)),
                ("initContainerStatuses", all(status.init_container_statuses, container_status)),
                ("nominatedNodeName", text(status.nominated_node_name)),
                ("extendedResourceClaimStatus", status.extended_resource_claim_status.map(claim_status)),
            ])),
        ),
    ])
}

fn claim_status(status: pb::PodExtendedResourceClaimStatus) -> Value {
    let mapping = |mapping: pb::ContainerExtendedResourceRequest| {
        object([
            ("containerName", text(mapping.container_name)),
            ("resourceName", text(mapping.resource_name)),
            ("requestName", text(mapping.request_name)),
        ])
    };
    object([
        ("requestMappings", all(status.request_mappings, mapping)),
        ("resourceClaimName", text(status.resource_claim_name)),
    ])
}

fn security_context(context: pb::PodSecurityContext) -> Value {
    object([
        ("runAsUser", number(context.run_as_user)),
        ("runAsNonRoot", flag(context.run_as_non_root)),
        ("fsGroup", number(context.fs_group)),
        ("runAsGroup", number(context.run_as_group)),
    ])
}

fn container(container: pb::Container) -> Value {
    let variable =
        |variable: pb::EnvVar| object([("name", text(variable.name)), ("value", text(variable.value))]);
    let resources = container.resources.map(|resources| {
        object([("limits", quantities(resources.limits)), ("requests", quantities(resources.requests))])
    });
    object([
        ("name", text(container.name)),
        ("image", text(container.image)),
        ("command", set(container.command)),
        ("args", set(container.args)),
        ("workingDir", text(container.working_dir)),
        ("env", all(container.env, variable)),
        ("resources", resources),
        ("terminationMessagePath", text(container.termination_message_path)),
        ("terminationMessagePolicy", text(container.termination_message_policy)),
        ("imagePullPolicy", text(container.image_pull_policy)),
        ("restartPolicy", text(container.restart_policy)),
    ])
}

fn container_status(status: pb::ContainerStatus) -> Value {
    object([
        ("name", text(status.name)),
        ("state", status.state.map(container_state)),
        ("lastState", status.last_state.map(container_state)),
        ("ready", flag(status.ready)),
        ("restartCount", number(status.restart_count)),
        ("image", text(status.image)),
        ("imageID", text(status.image_id)),
        ("containerID", text(status.container_id)),
        ("started", flag(status.started)),
        ("allocatedResourcesStatus", all(status.allocated_resources_status, resource_status)),
    ])
}

fn resource_status(status: pb::ResourceStatus) -> Value {
    let health = |resource: pb::ResourceHealth| {
        object([("resourceID", text(resource.resource_id)), ("health", text(resource.health))])
    };
    object([("name", text(status.name)), ("resources", all(status.resources, health))])
}

fn container_state(state: pb::ContainerState) -> Value {
    let waiting =
        state.waiting.map(|state| object([("reason", text(state.reason)), ("message", text(state.message))]));
    let running = state.running.map(|state| object([("startedAt", time(state.started_at))]));
    let terminated = state.terminated.map(|state| {
        object([
            ("exitCode", number(state.exit_code)),
            ("signal", number(state.signal)),
            ("reason", text(state.reason)),
            ("message", text(state.message)),
            ("startedAt", time(state.started_at)),
            ("finishedAt", time(state.finished_at)),
            ("containerID", text(state.container_id)),
        ])
    });
    object([("waiting", waiting), ("running", running), ("terminated", terminated)])
}

fn metadata(metadata: meta::ObjectMeta) -> Value {
    let owner = |owner: meta::OwnerReference| {
        object([
            ("apiVersion", text(owner.api_version)),
            ("kind", text(owner.kind)),
            ("name", text(owner.name)),
            ("uid", text(owner.uid)),
            ("controller", flag(owner.controller)),
            ("blockOwnerDeletion", flag(owner.block_owner_deletion)),
        ])
    };
    let managed = |entry: meta::ManagedFieldsEntry| {
        let fields = entry.fields_v1.and_then(|fields| fields.raw);
        object([
            ("manager", text(entry.manager)),
            ("operation", text(entry.operation)),
            ("apiVersion", text(entry.api_version)),
            ("time", time(entry.time)),
            ("fieldsType", text(entry.fields_type)),
            ("fieldsV1", fields.map(|fields| serde_json::from_slice(&fields).unwrap())),
            ("subresource", text(entry.subresource)),
        ])
    };
    object([
        ("name", text(metadata.name)),
        ("generateName", text(metadata.generate_name)),
        ("namespace", text(metadata.namespace)),
        ("uid", text(metadata.uid)),
        ("resourceVersion", text(metadata.resource_version)),
        ("generation", number(metadata.generation)),
        ("creationTimestamp", time(metadata.creation_timestamp)),
        ("deletionTimestamp", time(metadata.deletion_timestamp)),
        ("deletionGracePeriodSeconds", number(metadata.deletion_grace_period_seconds)),
        ("labels", map(metadata.labels)),
        ("annotations", map(metadata.annotations)),
        ("ownerReferences", all(metadata.owner_references, owner)),
        ("finalizers", set(metadata.finalizers)),
        ("managedFields", all(metadata.managed_fields, managed)),
    ])
}

/// The fields that are there.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(there.collect::<Map<_, _>>())
}

fn text(text: Option<String>) -> Option<Value> {
    text.map(Value::from)
}

fn number<T: Into<Value>>(number: Option<T>) -> Option<Value> {
    number.map(Into::into)
}

fn flag(flag: Option<bool>) -> Option<Value> {
    flag.map(Value::from)
}

fn time(time: Option<meta::Time>) -> Option<Value> {
    let seconds = time?.seconds?;
    Some(Timestamp::from_second(seconds).unwrap().to_string().into())
}

/// A list or map that has something in it.
fn set<T: Serialize>(values: Vec<T>) -> Option<Value> {
    (!values.is_empty()).then(|| json!(values))
}

fn map(values: BTreeMap<String, String>) -> Option<Value> {
    (!values.is_empty()).then(|| json!(values))
}

fn quantities(quantities: BTreeMap<String, Quantity>) -> Option<Value> {
    map(quantities.into_iter().map(|(name, quantity)| (name, quantity.string.unwrap())).collect())
}

fn all<T>(values: Vec<T>, as_json: impl Fn(T) -> Value) -> Option<Value> {
    set(values.into_iter().map(as_json).collect())
}
