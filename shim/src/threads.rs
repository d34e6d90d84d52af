//! What `/proc` tells of the threads of this process.

/// This thread's number.
pub(crate) fn own() -> i32 {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() }
}

/// Whether a thread sleeps.
pub(crate) fn sleeps(tid: i32) -> bool {
    state(tid) == Some('S')
}

/// Whether a thread has something to do, be it that it runs, waits for a processor or for a disk.
pub(crate) fn is_busy(tid: i32) -> bool {
    matches!(state(tid), Some('R' | 'D'))
}

/// Its state, if there is such a thread.
fn state(tid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
    // The state follows the name, which stands in parentheses.
    stat.rsplit(") ").next()?.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_busy_or_sleeps_or_is_not_there() {
        let me = own();
        assert!(is_busy(me) && !sleeps(me));
        let (to, from) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            tell.send(own()).unwrap();
            let _ = from.recv();
        });
        let tid = told.recv().unwrap();
        while !sleeps(tid) {
            std::thread::yield_now();
        }
        assert!(!is_busy(tid));
        drop(to);
        other.join().unwrap();
        while state(tid).is_some() {
            std::thread::yield_now();
        }
        assert!(!is_busy(tid) && !sleeps(tid));
    }
}
