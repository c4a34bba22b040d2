//! The place where a server is reached: an address of this machine, or a Unix socket.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::access::origin::Origin;

/// A place where a server is reached.
#[derive(Debug)]
pub struct Listener {
    pub(crate) kind: Kind,
    /// The address that browsers use, if it is not one of this machine.
    pub(crate) origin: Option<Origin>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener, RemovedAtEnd),
}

/// The path of a socket, which is removed when the server ends.
#[derive(Debug)]
pub(crate) struct RemovedAtEnd(PathBuf);

impl Drop for RemovedAtEnd {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The reason why a server cannot be reached at a place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address is not of this machine alone.
    #[error("{0} can be reached from other machines")]
    NotLoopback(SocketAddr),
    /// Another server has the address.
    #[error("another program listens at {0}")]
    InUse(String),
    /// The place cannot be used.
    #[error("cannot listen at {at}")]
    Io {
        /// The address or the path.
        at: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Listener {
    /// Listens at an address. One that other machines can reach needs the origin that their browsers
    /// use.
    pub fn tcp(address: SocketAddr, origin: Option<Origin>) -> Result<Listener, BindError> {
        if !address.ip().is_loopback() && origin.is_none() {
            return Err(BindError::NotLoopback(address));
        }
        let listener = TcpListener::bind(address).map_err(failed(address.to_string()))?;
        Ok(Listener { kind: Kind::Tcp(listener), origin })
    }

    /// Listens at a Unix socket that only this user can open. A socket that no server listens at is
    /// replaced; any other file is left alone.
    pub fn unix(path: &Path) -> Result<Listener, BindError> {
        let at = path.display().to_string();
        let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
        if is_socket {
            if UnixStream::connect(path).is_ok() {
                return Err(BindError::InUse(at));
            }
            fs::remove_file(path).map_err(failed(at.clone()))?;
        }
        let listener = UnixListener::bind(path).map_err(failed(at.clone()))?;
        let removed = RemovedAtEnd(path.to_owned());
        // The umask of the process decides the mode of a new socket, so it is set here for any
        // umask.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed(at))?;
        Ok(Listener { kind: Kind::Unix(listener, removed), origin: None })
    }

    /// Returns the address; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.kind {
            Kind::Tcp(listener) => listener.local_addr().ok(),
            Kind::Unix(..) => None,
        }
    }
}

fn failed(at: String) -> impl FnOnce(io::Error) -> BindError {
    move |source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse(at),
        _ => BindError::Io { at, source },
    }
}
