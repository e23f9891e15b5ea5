//! The short way to a machine, for tests of other projects. Called by them, by the command line and by [`crate::memory`].

use std::borrow::Cow;
use std::path::Path;

use neuron_core::catalog::Catalog;

use crate::machine::blueprint::Blueprint;
use crate::machine::description::{Description, MachineSpec};
use crate::{Machine, MachineError};

/// What to make, said in steps. [`Machine::builder`] begins it.
#[derive(Clone, Debug)]
pub struct Builder<'a> {
    spec: MachineSpec,
    counters: bool,
    catalog: Cow<'a, Catalog>,
}

impl Machine {
    /// A machine of this instance type or alias, such as `trn2.48xlarge`; all else as the type has it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let folder = tempfile::tempdir()?;
    /// let machine = fake_neuron::Machine::builder("trn2.3xlarge").lnc(1).counters(true).up(folder.path())?;
    /// let core = machine.root().join("sys/devices/virtual/neuron_device/neuron0/neuron_core7");
    /// assert_eq!(std::fs::read_to_string(core.join("stats/status/success/total"))?, "0\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(instance_type: &str) -> Builder<'static> {
        let instance_type = instance_type.to_owned();
        Builder {
            spec: MachineSpec { instance_type, lnc: None, instance_id: None, driver: None },
            counters: false,
            catalog: Cow::Borrowed(Catalog::embedded()),
        }
    }
}

impl<'a> Builder<'a> {
    /// As a [`MachineSpec`] says.
    pub fn of(spec: MachineSpec) -> Builder<'static> {
        Builder { spec, ..Machine::builder("") }
    }

    /// Physical cores in one logical core, 1 or 2; without it no setting is written, so readers use the type's default.
    pub fn lnc(mut self, lnc: u8) -> Self {
        self.spec.lnc = Some(lnc);
        self
    }

    /// The EC2 instance id that DMI shows, 1 to 64 visible ASCII characters; without it one made from the type's name.
    pub fn instance_id(mut self, id: &str) -> Self {
        self.spec.instance_id = Some(id.to_owned());
        self
    }

    /// The driver's line, such as `2.24`; without it the newest that serves the type and whose tree is known.
    pub fn driver(mut self, line: &str) -> Self {
        self.spec.driver = Some(line.to_owned());
        self
    }

    /// Whether the tree is whole, with memory, status and other counters, `power/` and the module's files: for a trn2.48xlarge
    /// 14,500 files instead of 600. Discovery and health need none of them, so the default is no.
    pub fn counters(mut self, counters: bool) -> Self {
        self.counters = counters;
        self
    }

    /// The catalog that the type is looked up in; without it the program's own.
    pub fn catalog<'b>(self, catalog: &'b Catalog) -> Builder<'b> {
        Builder { spec: self.spec, counters: self.counters, catalog: Cow::Borrowed(catalog) }
    }

    /// Makes the machine under `root`, as [`Machine::up`] does.
    ///
    /// # Errors
    /// Those of [`Machine::up`].
    pub fn up(&self, root: &Path) -> Result<Machine, MachineError> {
        Machine::raise(self.description()?, root, None)
    }

    /// The machine's files as a list; nothing is written.
    ///
    /// # Errors
    /// Those of [`Machine::up`] before it writes.
    pub fn blueprint(&self) -> Result<Blueprint, MachineError> {
        Ok(Blueprint::of_description(self.description()?))
    }

    fn description(&self) -> Result<Description, MachineError> {
        Ok(Description { counters: self.counters, ..Description::of(&self.spec, &self.catalog)? })
    }
}
