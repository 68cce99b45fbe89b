#include "interrupt.h"

#include <csignal>

#include "smartmine/core/error.h"

namespace smartmine::app {
namespace {

volatile std::sig_atomic_t received = 0;

extern "C" void remember_signal(int signal) { received = signal; }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = remember_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // A second Ctrl-C ends the program at once. The others may come twice, to a process and to its group, and are waited out.
    action.sa_flags = signal == SIGINT ? static_cast<int>(SA_RESETHAND | SA_RESTART) : SA_RESTART;
    struct sigaction before {};
    // A signal that the parent ignores (nohup, a shell's background job) stays ignored.
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

int interrupt_signal() { return received; }

void stop_if_interrupted() {
  if (received != 0) throw Cancelled();
}

}  // namespace smartmine::app
