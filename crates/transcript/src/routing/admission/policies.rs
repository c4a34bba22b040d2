//! The settings for who may speak.

use std::collections::{BTreeMap, BTreeSet};

use super::sender_id;
use crate::routing::inbound::Inbound;
use crate::routing::names::Channel;
use crate::routing::settings::choices;

choices! {
    /// The senders who may speak in direct conversations.
    DirectPolicy {
        /// Approved senders; others may ask to be paired.
        Pairing = "pairing",
        /// Approved senders.
        Allowlist = "allowlist",
        /// All senders who were not denied.
        Open = "open",
        /// No senders.
        Disabled = "disabled",
    }
}

choices! {
    /// The senders who may speak in groups.
    GroupPolicy {
        /// Approved senders.
        Allowlist = "allowlist",
        /// All senders who were not denied.
        Open = "open",
        /// No senders.
        Disabled = "disabled",
    }
}

/// The settings for who may speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// The policy in direct conversations.
    pub direct: DirectPolicy,
    /// The policy in groups.
    pub group: GroupPolicy,
    /// Channels with their own policies.
    pub channels: BTreeMap<Channel, FilePolicies>,
    /// The agent's owners. They need no approval, and may run more commands in groups. Ids are in
    /// their [normal form](sender_id).
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

/// The policies of one channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilePolicies {
    /// The policy in direct conversations.
    pub direct: Option<DirectPolicy>,
    /// The policy in groups.
    pub group: Option<GroupPolicy>,
}

/// The admission settings in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileAdmission {
    /// The policies on all channels.
    pub policies: FilePolicies,
    /// The policies on single channels.
    pub channels: BTreeMap<Channel, FilePolicies>,
    /// The agent's owners.
    pub owners: Option<BTreeSet<(Channel, String)>>,
}

impl AdmissionSettings {
    /// Returns the settings with those of a file applied over them.
    pub(in crate::routing) fn with(mut self, from_file: FileAdmission) -> AdmissionSettings {
        self.direct = from_file.policies.direct.unwrap_or(self.direct);
        self.group = from_file.policies.group.unwrap_or(self.group);
        for (channel, policies) in from_file.channels {
            let here = self.channels.entry(channel).or_default();
            here.direct = policies.direct.or(here.direct);
            here.group = policies.group.or(here.group);
        }
        if let Some(owners) = from_file.owners {
            self.owners = owners;
        }
        self
    }

    /// Returns whether a message is from an owner of the agent.
    pub fn is_owner(&self, inbound: &Inbound) -> bool {
        sender_id(inbound.sender())
            .is_some_and(|sender| self.owners.contains(&(inbound.channel.clone(), sender)))
    }

    /// Returns the policies in effect on a channel.
    pub fn policies(&self, channel: &Channel) -> (DirectPolicy, GroupPolicy) {
        let here = self.channels.get(channel).copied().unwrap_or_default();
        (here.direct.unwrap_or(self.direct), here.group.unwrap_or(self.group))
    }
}
