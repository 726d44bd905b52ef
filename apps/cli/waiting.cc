// How long threads of the OpenMP runtime wait for work on a core of their own.
#include <cstdlib>

namespace {

constexpr const char* kSpins = "GOMP_SPINCOUNT";

/// libgomp's own 300,000 rounds keep a core for tens of milliseconds, and two processes on the same
/// cores stop each other. 3,000 outlast the pauses between the loops of one text. The runtime reads
/// the variable when it is loaded, before main() and before the initialisation of any library.
void wait_shortly(int, char**, char**) {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv(kSpins, "3000", 0);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**,
                                                                             char**) = wait_shortly;

}  // namespace
