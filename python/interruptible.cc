#include "interruptible.h"

namespace longformer {

HeldSignals::HeldSignals() {
  sigfillset(&held_);
  // A signal that the processor raises in a thread belongs to this thread and does not wait.
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&held_, own);
  }
  pthread_sigmask(SIG_BLOCK, &held_, &former_);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

void HeldSignals::let_in() const {
  pthread_sigmask(SIG_SETMASK, &former_, nullptr);
  pthread_sigmask(SIG_BLOCK, &held_, nullptr);
}

bool on_main_thread() {
  const nb::module_ threading = nb::module_::import_("threading");
  return threading.attr("get_ident")().equal(threading.attr("main_thread")().attr("ident"));
}

void check_signals() {
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw Interrupted();
}

}  // namespace longformer
