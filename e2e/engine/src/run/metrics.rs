//! The step `metrics`: what counters of our programs have counted since the scenario began. A program outlives a scenario on kind, so what
//! it showed then is taken off. Called by [`super::run`] and [`super::steps`].

use std::collections::BTreeMap;

use anyhow::{bail, ensure};

use super::Run;
use crate::cluster::Cluster;
use crate::cluster::wait::until;
use crate::scenario::{MetricsStep, Part, Series, Step};

/// What counters showed when the scenario began, by the part, its node's place, the process and the series.
pub(super) type Counted = BTreeMap<(Part, usize, String, Series), f64>;

impl<C: Cluster> Run<'_, C> {
    /// Reads the counters that the scenario's steps ask for.
    pub(super) async fn begin_counting(&mut self) -> anyhow::Result<()> {
        for step in self.scenario.all_steps() {
            let Step::Metrics(step) = step else { continue };
            let place = self.scenario.place_of(&step.node)?;
            until(self.cluster, &format!("the metrics of {}", step.part.name()), async || {
                for (process, text) in self.cluster.metrics(step.part, place).await? {
                    let key = (step.part, place, process, step.series.clone());
                    self.counted.insert(key, step.series.sum(&text));
                }
                Ok(true)
            })
            .await?;
        }
        Ok(())
    }

    pub(super) async fn metrics(&self, step: &MetricsStep) -> anyhow::Result<()> {
        let MetricsStep { part, node, series, at_least, at_most } = step;
        let place = self.scenario.place_of(node)?;
        let mut counted = 0.0;
        until(self.cluster, &format!("{series} to have counted {at_least}"), async || {
            counted = 0.0;
            for (process, text) in self.cluster.metrics(*part, place).await? {
                counted += self.counted_by((*part, place, process, series.clone()), series.sum(&text));
            }
            if counted >= f64::from(*at_least) {
                return Ok(true);
            }
            bail!("it has counted {counted} since the scenario began")
        })
        .await?;
        if let Some(most) = at_most {
            let is_met = counted <= f64::from(*most);
            ensure!(
                is_met,
                "{series} has counted {counted} since the scenario began, and may have {most} at most"
            );
        }
        Ok(())
    }

    /// What a process that shows `now` has counted since the scenario began. One that shows less than then has been started again.
    fn counted_by(&self, key: (Part, usize, String, Series), now: f64) -> f64 {
        let began = self.counted.get(&key).copied().unwrap_or_default();
        if now < began { now } else { now - began }
    }
}
