#include "documents/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/descriptor.h"
#include "core/error.h"
#include "longformer/report.h"

namespace longformer::documents {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMilliseconds = 100;
constexpr std::size_t kMostErrors = 4096;
/// The status of a child that could not begin the program, as a shell has it.
constexpr int kNotStarted = 127;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends = {-1, -1};
    require(::pipe2(ends.data(), O_CLOEXEC) == 0, "expected a pipe, found: {}",
            std::strerror(errno));
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
  }
  Descriptor read, write;
};

/// A file in memory.
Descriptor file_of(std::string_view bytes) {
  Descriptor file(::memfd_create("document", MFD_CLOEXEC));
  bool is_fine = file.is_open();
  while (is_fine && !bytes.empty()) {
    const ssize_t count = ::write(file.number(), bytes.data(), bytes.size());
    is_fine = count > 0;
    if (is_fine) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  require(is_fine && ::lseek(file.number(), 0, SEEK_SET) == 0,
          "expected room for a file in memory, found: {}", std::strerror(errno));
  return file;
}

bool limit(__rlimit_resource kind, rlim_t most) {
  const rlimit both = {.rlim_cur = most, .rlim_max = most};
  return ::setrlimit(kind, &both) == 0;
}

/// The new process until it is the program: between fork and exec only calls are safe that take no
/// lock. It never returns.
[[noreturn]] void become(const char* path, char* const* arguments, const std::array<int, 3>& ends,
                         const ProgramLimits& limits) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  // Ctrl-C is for the caller, and the end of the caller is that of the program.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < 3; ++i) {
    if (::dup2(ends[static_cast<std::size_t>(i)], i) < 0) ::_exit(kNotStarted);
  }
  ::close_range(3, ~0U, 0);
  const bool is_limited = limit(RLIMIT_CORE, 0) && limit(RLIMIT_FSIZE, 0) &&
                          limit(RLIMIT_AS, limits.memory) &&
                          limit(RLIMIT_CPU, static_cast<rlim_t>(limits.computing.count()));
  if (is_limited) ::execv(path, arguments);
  ::_exit(kNotStarted);
}

/// A process that is ended at the latest with this object.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() { static_cast<void>(status()); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void end() const { ::kill(id_, SIGKILL); }

  /// Waits for its end. A program that has closed its output has nothing more to do.
  int status() {
    if (is_waited_) return status_;
    is_waited_ = true;
    int found = 0;
    if (!has_ended_by_itself_) end();
    while (::waitpid(id_, &found, 0) < 0) {
      // The system forgets children of a process that ignores their signal.
      if (errno != EINTR) return status_ = 0;
    }
    return status_ = WIFSIGNALED(found) ? 128 + WTERMSIG(found) : WEXITSTATUS(found);
  }
  void has_ended_by_itself() { has_ended_by_itself_ = true; }

 private:
  pid_t id_;
  bool has_ended_by_itself_ = false, is_waited_ = false;
  int status_ = 0;
};

/// Bytes that have come through a pipe; false at its end.
bool read_from(const Descriptor& pipe, std::string& all, std::size_t most) {
  std::array<char, std::size_t{1} << 16> buffer;
  const ssize_t count = ::read(pipe.number(), buffer.data(), buffer.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  const std::size_t room = most - std::min(most, all.size());
  all.append(buffer.data(), std::min(static_cast<std::size_t>(count), room));
  return count > 0;
}

/// Reads what the program writes until it ends, or a limit is reached.
void read_all(ProgramResult& result, const Pipe& output, const Pipe& errors,
              const ProgramLimits& limits) {
  const Clock::time_point last = Clock::now() + limits.waiting;
  std::array<pollfd, 2> ends = {{{.fd = output.read.number(), .events = POLLIN, .revents = 0},
                                 {.fd = errors.read.number(), .events = POLLIN, .revents = 0}}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    Interruption::poll();
    if (Clock::now() > last) {
      result.limit = fmt::format("more than {} s of time", limits.waiting.count());
      return;
    }
    if (::poll(ends.data(), ends.size(), kPollMilliseconds) <= 0) continue;
    // Poll leaves out what is less than 0.
    if (ends[0].revents != 0 && !read_from(output.read, result.output, limits.output + 1)) {
      ends[0].fd = -1;
    }
    if (ends[1].revents != 0 && !read_from(errors.read, result.errors, kMostErrors)) {
      ends[1].fd = -1;
    }
    ends[0].revents = ends[1].revents = 0;
    if (result.output.size() > limits.output) {
      result.limit = fmt::format("more than {} MB of text", limits.output >> 20);
      return;
    }
  }
}

}  // namespace

std::string program_named(const std::string& name) {
  const char* found = std::getenv("PATH");
  std::string_view folders = found == nullptr ? "/usr/local/bin:/usr/bin:/bin" : found;
  while (!folders.empty()) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const std::string path = std::string(folders.substr(0, end)) + "/" + name;
    if (path.starts_with('/') && ::access(path.c_str(), X_OK) == 0) return path;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return {};
}

ProgramResult run_program(const std::string& path, const std::vector<std::string>& arguments,
                          std::string_view input, const ProgramLimits& limits) {
  const Descriptor document = file_of(input);
  Pipe output, errors;
  std::vector<char*> pointers = {const_cast<char*>(path.c_str())};
  for (const std::string& one : arguments) pointers.push_back(const_cast<char*>(one.c_str()));
  pointers.push_back(nullptr);
  // Numbers below 3 would be closed while they are moved.
  std::vector<Descriptor> ends;
  std::array<int, 3> numbers = {};
  for (const Descriptor* one :
       {&document, &std::as_const(output.write), &std::as_const(errors.write)}) {
    ends.emplace_back(::fcntl(one->number(), F_DUPFD_CLOEXEC, 3));
    numbers.at(ends.size() - 1) = ends.back().number();
  }
  const pid_t id = ::fork();
  require(id >= 0, "expected a process for {}, found: {}", path, std::strerror(errno));
  if (id == 0) become(path.c_str(), pointers.data(), numbers, limits);
  Child child(id);
  ProgramResult result;
  // The end of a pipe comes when nobody can write into it any more.
  ends.clear();
  output.write = Descriptor();
  errors.write = Descriptor();
  read_all(result, output, errors, limits);
  if (result.limit.empty()) child.has_ended_by_itself();
  result.status = child.status();
  return result;
}

}  // namespace longformer::documents
