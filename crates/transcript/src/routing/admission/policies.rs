//! What people choose about who may speak.

use std::collections::{BTreeMap, BTreeSet};

use super::sender_id;
use crate::routing::inbound::Inbound;
use crate::routing::names::Channel;
use crate::routing::settings::choices;

choices! {
    /// Who may speak in direct conversations.
    DirectPolicy {
        /// Whoever was approved; the others may ask.
        Pairing = "pairing",
        /// Whoever was approved.
        Allowlist = "allowlist",
        /// Everybody who was not denied.
        Open = "open",
        /// Nobody.
        Disabled = "disabled",
    }
}

choices! {
    /// Who may speak in groups.
    GroupPolicy {
        /// Whoever was approved.
        Allowlist = "allowlist",
        /// Everybody who was not denied.
        Open = "open",
        /// Nobody.
        Disabled = "disabled",
    }
}

/// What people choose about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// In direct conversations.
    pub direct: DirectPolicy,
    /// In groups.
    pub group: GroupPolicy,
    /// Channels where it is different.
    pub channels: BTreeMap<Channel, SaidPolicies>,
    /// Who runs the agent. They need no approval, and may do more in groups. Ids are in their
    /// [normal form](sender_id).
    pub owners: BTreeSet<(Channel, String)>,
}

impl Default for AdmissionSettings {
    fn default() -> AdmissionSettings {
        AdmissionSettings {
            direct: DirectPolicy::Pairing,
            group: GroupPolicy::Allowlist,
            channels: BTreeMap::new(),
            owners: BTreeSet::new(),
        }
    }
}

/// What is different on one channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SaidPolicies {
    /// In direct conversations.
    pub direct: Option<DirectPolicy>,
    /// In groups.
    pub group: Option<GroupPolicy>,
}

/// What one file says about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SaidAdmission {
    /// Everywhere.
    pub policies: SaidPolicies,
    /// On these channels.
    pub channels: BTreeMap<Channel, SaidPolicies>,
    /// Who runs the agent.
    pub owners: Option<BTreeSet<(Channel, String)>>,
}

impl AdmissionSettings {
    /// The same with what a file says.
    pub(in crate::routing) fn with(mut self, said: SaidAdmission) -> AdmissionSettings {
        self.direct = said.policies.direct.unwrap_or(self.direct);
        self.group = said.policies.group.unwrap_or(self.group);
        for (channel, policies) in said.channels {
            let here = self.channels.entry(channel).or_default();
            here.direct = policies.direct.or(here.direct);
            here.group = policies.group.or(here.group);
        }
        if let Some(owners) = said.owners {
            self.owners = owners;
        }
        self
    }

    /// Whether a message is of somebody who runs the agent.
    pub fn is_owner(&self, inbound: &Inbound) -> bool {
        sender_id(inbound.sender())
            .is_some_and(|sender| self.owners.contains(&(inbound.channel.clone(), sender)))
    }

    /// Who may speak on a channel.
    pub fn policies(&self, channel: &Channel) -> (DirectPolicy, GroupPolicy) {
        let here = self.channels.get(channel).copied().unwrap_or_default();
        (here.direct.unwrap_or(self.direct), here.group.unwrap_or(self.group))
    }
}
