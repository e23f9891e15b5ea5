//! The device models that pods' authors want, read by the catalog of this extender. Asked by the verbs and the explainer.

use neuron_core::device_model::{DeviceModelError, DeviceModels};

use super::Index;

impl Index {
    /// The device models that a pod's author wants, read from the annotation's text; none without one.
    ///
    /// # Errors
    /// The text names something else.
    pub(crate) fn device_models(&self, text: Option<&str>) -> Result<Option<DeviceModels>, DeviceModelError> {
        text.map(|text| DeviceModels::parse(text, self.topologies.catalog())).transpose()
    }

    /// What the author of a pod that waits says of device models, as written.
    pub(crate) fn device_model_of(&self, uid: &str) -> Option<&str> {
        self.pending.get(uid)?.device_model.as_deref()
    }
}
