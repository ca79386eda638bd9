//! ggml's RPC: devices served to other processes and used from them. The protocol has neither passwords nor encryption.

use std::convert::Infallible;
use std::ffi::{CStr, CString, c_char, c_void};
use std::io::{BufRead, BufReader, ErrorKind, copy, sink};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio, exit};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{JoinHandle, available_parallelism, sleep, spawn};
use std::time::{Duration, Instant};

use llama_cpp_sys_2 as sys;

use crate::device::{c_path, registry};
use crate::logging::capture;
use crate::{Device, Error, Result};

/// How long a server may take until it answers; opening a device under the validation layer takes a second.
const PATIENCE: Duration = Duration::from_secs(120);

type StartServer = unsafe extern "C" fn(*const c_char, *const c_char, usize, usize, *mut sys::ggml_backend_dev_t);
type AddServer = unsafe extern "C" fn(*const c_char) -> sys::ggml_backend_reg_t;

/// A function of the backend, which is loaded the first time.
fn function(name: &CStr) -> Result<*mut c_void> {
    let path = Path::new(env!("GGML_RPC_LIBRARY"));
    let c = c_path(path)?;
    let _registry = registry();
    let failed = |reason| Error::Plugin { path: path.display().to_string(), reason };
    // SAFETY: the library was built for this engine, which takes one that it has loaded for the same. Nobody else uses the registry.
    let (reg, said) = capture(log::Level::Warn, || unsafe { sys::ggml_backend_load(c.as_ptr()) });
    if reg.is_null() {
        return Err(failed(said));
    }
    // SAFETY: the registry lives as long as the program, and the name is a C string.
    let address = unsafe { sys::ggml_backend_reg_get_proc_address(reg, name.as_ptr()) };
    if address.is_null() { Err(failed(format!("it has no {}", name.to_string_lossy()))) } else { Ok(address) }
}

/// Serves `devices` at `address` (a name or IPv4 address and a port) to one process after the other. Comes back only if that fails.
pub fn serve(address: &str, devices: &[Device]) -> Result<Infallible> {
    let start = function(c"ggml_backend_rpc_start_server")?;
    let c = CString::new(address).map_err(|_| Error::Nul(address.to_owned()))?;
    let threads = available_parallelism().map_or(1, |n| n.get());
    let mut raw: Vec<_> = devices.iter().map(|device| device.raw()).collect();
    // SAFETY: the backend gives this name to a function of this type. Address and devices are valid during the call; null is no cache.
    unsafe {
        let start = std::mem::transmute::<*mut c_void, StartServer>(start);
        start(c.as_ptr(), std::ptr::null(), threads, raw.len(), raw.as_mut_ptr());
    }
    let reason = "the server could not open its devices, or not listen".to_owned();
    Err(Error::Rpc { address: address.to_owned(), reason })
}

/// The devices of a server. They are not among [`crate::devices`], for ggml ends the process where it finds a server gone.
///
/// The server is this process's alone as long as it has buffers or streams there. A device is taken to support every op: the server ends
/// at one that it cannot run.
pub fn connect(address: &str) -> Result<Vec<Device>> {
    let failed = |reason: String| Error::Rpc { address: address.to_owned(), reason };
    let add = function(c"ggml_backend_rpc_add_server")?;
    let c = CString::new(address).map_err(|_| Error::Nul(address.to_owned()))?;
    TcpStream::connect(address).map_err(|error| failed(error.to_string()))?;
    let _registry = registry();
    // SAFETY: the backend gives this name to a function of this type; the registry it returns and its devices are never freed.
    unsafe {
        let add = std::mem::transmute::<*mut c_void, AddServer>(add);
        let reg = add(c.as_ptr());
        if reg.is_null() {
            return Err(failed("the server has no devices".to_owned()));
        }
        let devices = (0..sys::ggml_backend_reg_dev_count(reg)).map(|i| sys::ggml_backend_reg_dev_get(reg, i));
        Ok(devices.filter_map(Device::from_raw).collect())
    }
}

/// Ends this process when standard input ends: a server that [`Server::start`] started goes with whoever started it, however that ends.
pub fn exit_with_stdin() {
    spawn(|| {
        // An error is an end, too.
        let _ = copy(&mut std::io::stdin(), &mut sink());
        exit(0)
    });
}

/// A free address of this machine. Ports from 32768 on are not for it: the system gives those to whoever connects, and who tries one where
/// nobody listens yet may meet himself.
fn free_address() -> std::io::Result<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let tried = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (std::process::id().wrapping_mul(31).wrapping_add(tried) % 12_000) as u16;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|listener| listener.local_addr()) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && tried < 10_000 => {}
            result => return result,
        }
    }
}

/// What the server says on standard error, until it ends; logged at once, for a client whose server is gone ends too.
fn said(pipe: ChildStderr) -> String {
    let mut text = String::new();
    for line in BufReader::new(pipe).lines().map_while(std::io::Result::ok) {
        log::error!("RPC server: {line}");
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// A process of its own that [`serve`]s. It is killed with this value.
pub struct Server {
    child: Child,
    address: String,
    errors: Option<JoinHandle<String>>,
}

impl Server {
    /// Starts what `command` makes of an address on this machine, and waits until it listens there. The program is to call
    /// [`exit_with_stdin`] and [`serve`].
    ///
    /// Not while this process is connected to another server: ggml's sockets pass to processes that start meanwhile, and that server, which
    /// has one client at a time, would wait for a connection that is never closed.
    pub fn start(command: impl FnOnce(&str) -> Command) -> Result<Server> {
        let io = |source| Error::Io { path: "the RPC server".to_owned(), source };
        let address = free_address().map_err(io)?.to_string();
        let mut command = command(&address);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(io)?;
        let errors = child.stderr.take().map(|pipe| spawn(move || said(pipe)));
        let mut server = Server { child, address, errors };
        let begun = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            let ended = server.child.try_wait().map_err(io)?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let address = server.address.clone();
                return Err(Error::Rpc { address, reason: format!("the server does not answer: {}", server.stop()) });
            }
            sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Ends the process; what it wrote to standard error.
    pub fn stop(mut self) -> String {
        self.end()
    }

    fn end(&mut self) -> String {
        // Neither fails but for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.errors.take().and_then(|reader| reader.join().ok()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
