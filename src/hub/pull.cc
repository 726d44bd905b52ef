#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/json.h"
#include "hub/cache.h"
#include "hub/checksum.h"
#include "hub/download.h"
#include "hub/names.h"
#include "hub/settings.h"
#include "hub/web.h"
#include "longformer/hub.h"
#include "longformer/report.h"

namespace longformer::hub {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kAtATime = 6;
constexpr int kMostTries = 4;
constexpr milliseconds kTick(100);

/// A whole answer in memory.
class TextTransfer : public Transfer {
 public:
  explicit TextTransfer(std::string address) : address_(std::move(address)) {}

  std::string address() const override { return address_; }
  std::int64_t first() const override { return 0; }
  void begin(const AnswerHead&) override { text_.clear(); }
  void take(std::string_view bytes) override {
    constexpr std::size_t kMost = std::size_t{64} << 20;
    require(text_.size() + bytes.size() <= kMost, "expected an answer of at most {} bytes from {}",
            kMost, without_password(address_));
    text_ += bytes;
  }
  const std::string& text() const { return text_; }

 private:
  std::string address_, text_;
};

/// The head of the answer for a file, without the file.
class HeadTransfer : public TextTransfer {
 public:
  using TextTransfer::TextTransfer;
  bool is_head() const override { return true; }
};

/// The ETag of a file is its hash; that of one that lies elsewhere has a header of its own.
std::string hash_in(const AnswerHead& head) {
  std::string hash = head.header(head.headers.contains("x-linked-etag") ? "x-linked-etag" : "etag");
  if (hash.starts_with("W/")) hash.erase(0, 2);
  std::erase(hash, '"');
  return hash;
}

std::int64_t size_in(const AnswerHead& head) {
  const std::string text =
      head.header(head.headers.contains("x-linked-size") ? "x-linked-size" : "content-length");
  std::int64_t size = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), size);
  return fault == std::errc() && end == text.data() + text.size() ? size : -1;
}

/// Whether the same request may be answered otherwise in a while.
bool may_pass(long status) { return status == 408 || status == 429 || status >= 500; }

/// Retry-After in seconds.
std::optional<seconds> pause_of(const AnswerHead& head) {
  constexpr int kMost = 60;
  const std::string text = head.header("retry-after");
  int pause = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), pause);
  if (fault != std::errc() || pause < 0) return std::nullopt;
  return seconds(std::min(pause, kMost));
}

/// One pull: the answers of the Hub, and the place for files.
class Pull {
 public:
  Pull(const ModelName& name, const PullOptions& options)
      : name_(name),
        options_(options),
        endpoint_(hub::endpoint()),
        token_(token_for(endpoint_)),
        repository_(cache_folder(), name.repository),
        client_({.token = token_,
                 .patience = patience(),
                 .allows_plain = endpoint_.starts_with("http://")}) {}

  PulledModel run() {
    listing_ = parse_listing(
        text_at(fmt::format("{}/api/models/{}/revision/{}?blobs=true", endpoint_,
                            in_address(name_.repository, true), in_address(name_.revision))),
        name_.repository);
    files_ = files_to_read(listing_, name_.repository,
                           {.text = [this](const RemoteFile& file) { return text_of(file); },
                            .describe = [this](RemoteFile& file) { describe(file); }});
    repository_.prepare();
    plan();
    fetch();
    repository_.link(listing_.commit, files_);
    for (const char* name : kDecisive) {
      if (listing_.find(name) == nullptr) repository_.mark_absent(listing_.commit, name);
    }
    repository_.refer(name_.revision, listing_.commit);
    return {.folder = repository_.snapshot(listing_.commit).string(),
            .commit = listing_.commit,
            .files = plan_.files,
            .bytes = plan_.bytes,
            .fetched_files = plan_.missing_files,
            .fetched_bytes = plan_.missing_bytes};
  }

 private:
  std::string address_of(const RemoteFile& file) const {
    return fmt::format("{}/{}/resolve/{}/{}", endpoint_, in_address(name_.repository, true),
                       listing_.commit, in_address(file.name, true));
  }

  /// The text of a small file, from the cache where it has it. It decides what is fetched, so it is
  /// checked as files are.
  std::string text_of(const RemoteFile& file) {
    const fs::path blob = repository_.blob(file.hash);
    std::error_code ignored;
    if (fs::is_regular_file(blob, ignored)) return formats::read_file(blob.string());
    const std::string address = address_of(file);
    for (int i = 1;; ++i) {
      std::string text = text_at(address);
      Checksum sum = Checksum::of_file(file.hash.size(), file.size);
      sum.add(text);
      if (std::ssize(text) == file.size && sum.hexadecimal() == file.hash) return text;
      require(i < kMostTries,
              "{}: expected the file of the Hub's list, found another: it came "
              "damaged",
              file.name);
      sleep(seconds(i));
    }
  }

  /// Asks for the head of the file's answer, as huggingface_hub does. A server that keeps the file
  /// elsewhere says there what it is; a redirect within the server leads to what says it.
  void describe(RemoteFile& file) {
    constexpr int kMostRedirects = 10;
    std::string address = address_of(file);
    for (int i = 0; i < kMostRedirects; ++i) {
      HeadTransfer transfer(address);
      const AnswerHead head = answered(transfer);
      const std::string to = head.header("location");
      const bool stays = !head.redirect.empty() && to.starts_with('/') && !to.starts_with("//");
      if (!stays) return file.describe(size_in(head), hash_in(head));
      address = head.redirect;
    }
  }

  /// The text that an address answers with.
  std::string text_at(const std::string& address) {
    TextTransfer transfer(address);
    answered(transfer);
    return transfer.text();
  }

  /// The head of the answer, after as many tries as may change it.
  AnswerHead answered(Transfer& transfer) {
    for (int i = 1;; ++i) {
      client_.start(transfer);
      std::vector<Outcome> ended;
      while (ended.empty()) {
        Interruption::poll();
        ended = client_.wait(kTick);
      }
      const Outcome& outcome = ended.front();
      if (outcome.thrown) std::rethrow_exception(outcome.thrown);
      const bool is_answer = outcome.head.is_good() || !outcome.head.redirect.empty();
      if (outcome.fault == Fault::none && is_answer) return outcome.head;
      const bool may_change = outcome.fault == Fault::broken ||
                              (outcome.fault == Fault::none && may_pass(outcome.head.status));
      if (!may_change || i == kMostTries) refuse(outcome, transfer.address());
      sleep(pause_of(outcome.head).value_or(seconds(i)));
    }
  }

  static void sleep(milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
      Interruption::poll();
      std::this_thread::sleep_for(std::min(time, kTick));
    }
  }

  /// Throws the Error for an answer that is none.
  [[noreturn]] void refuse(const Outcome& outcome, const std::string& asked) const {
    const std::string address = without_password(asked), endpoint = without_password(endpoint_);
    if (outcome.fault != Fault::none) {
      fail("could not fetch {}: {}", address, outcome.reason);
    }
    const long status = outcome.head.status;
    const std::string code = outcome.head.header("x-error-code");
    const std::string said = outcome.head.header("x-error-message");
    const std::string details = said.empty() ? "" : ": " + formats::quote(said);
    if (code == "RevisionNotFound") {
      fail("expected a branch, tag or commit of it, found no revision {} ({} from {})",
           formats::quote(name_.revision), status, endpoint);
    }
    if (code == "GatedRepo") {
      fail(
          "expected a token that may read it: its owners let in who asks at {}/{}, and {} "
          "({} from the server)",
          endpoint, name_.repository, token_words(), status);
    }
    if (status == 401 || code == "RepoNotFound") {
      fail(
          "expected a model at {}, found none that may be read: it does not exist, or is private, "
          "and {} ({} from the server{})",
          endpoint, token_words(), status, details);
    }
    if (status == 403) {
      fail("expected to be let in to {}, found 403, and {}{}", address, token_words(), details);
    }
    if (status == 404) fail("expected an answer from {}, found 404{}", address, details);
    fail("expected an answer from {}, found status {}{}", address, status, details);
  }

  std::string token_words() const {
    if (!token_.empty()) return "the token was sent";
    return is_private(endpoint_) ? "there is no token (HF_TOKEN)"
                                 : "no token goes to an address without https";
  }

  /// Finds what is missing, tells it, and looks whether there is room.
  void plan() {
    plan_ = {.repository = name_.repository,
             .revision = name_.revision,
             .commit = listing_.commit,
             .endpoint = without_password(endpoint_),
             .cache = repository_.cache().string()};
    std::int64_t to_write = 0;
    for (const RemoteFile& file : files_) {
      ++plan_.files;
      plan_.bytes += file.size;
      auto download = std::make_unique<Download>(file, repository_, address_of(file));
      if (download->is_in_place()) continue;
      // Files with equal contents are one.
      const bool is_known = std::ranges::any_of(
          waiting_, [&](const auto& other) { return other->file().hash == file.hash; });
      if (is_known) continue;
      ++plan_.missing_files;
      plan_.missing_bytes += file.size;
      std::error_code absent;
      const auto there = fs::file_size(repository_.partial(file.hash), absent);
      to_write += file.size - (absent ? 0 : static_cast<std::int64_t>(there));
      waiting_.push_back(std::move(download));
    }
    if (options_.plan) options_.plan(plan_);
    std::error_code unknown;
    const fs::space_info space = fs::space(repository_.cache(), unknown);
    require(unknown || to_write <= 0 || space.available >= static_cast<std::uintmax_t>(to_write),
            "{}: expected room for {} bytes, found {}", plan_.cache, to_write, space.available);
  }

  void fetch() {
    while (!waiting_.empty() || !running_.empty()) {
      Interruption::poll();
      const bool is_held = start_due();
      tell(is_held);
      for (const Outcome& outcome : client_.wait(kTick)) take(outcome);
    }
    tell(false);
  }

  /// Starts what may start. True where only files of another process are left.
  bool start_due() {
    std::size_t held = 0;
    for (std::size_t i = 0; i < waiting_.size() && running_.size() < kAtATime;) {
      auto& next = waiting_[i];
      if (next->is_in_place()) {
        finish(i);
        continue;
      }
      if (!next->is_due() || (!next->is_open() && !next->open())) {
        held += next->is_open() ? 0 : 1;
        ++i;
        continue;
      }
      // Another process may have finished it between the two looks.
      if (next->is_in_place() || (next->is_whole() && next->finish())) {
        finish(i);
        continue;
      }
      client_.start(*next);
      running_.push_back(std::move(next));
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return held > 0 && held == waiting_.size() && running_.empty();
  }

  void finish(std::size_t i) {
    waiting_[i]->close();
    finished_.push_back(std::move(waiting_[i]));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void take(const Outcome& outcome) {
    if (outcome.thrown) std::rethrow_exception(outcome.thrown);
    const auto found = std::ranges::find_if(
        running_, [&](const auto& one) { return one.get() == outcome.transfer; });
    std::unique_ptr<Download> download = std::move(*found);
    running_.erase(found);
    const bool came = outcome.fault == Fault::none && outcome.head.is_good();
    if (came && download->is_whole()) {
      if (download->finish()) {
        finished_.push_back(std::move(download));
      } else {
        waiting_.push_back(std::move(download));
      }
      return;
    }
    // The range begins behind the end that the server knows.
    if (outcome.head.status == 416 && download->done() > 0) download->begin_anew();
    const bool may_change = came || outcome.fault == Fault::broken ||
                            outcome.fault == Fault::unreachable ||
                            (outcome.fault == Fault::none &&
                             (may_pass(outcome.head.status) || outcome.head.status == 416));
    if (!may_change || !download->try_again(pause_of(outcome.head))) {
      require(!came, "could not fetch {}: expected {} bytes, found {}",
              without_password(download->address()), download->file().size, download->done());
      refuse(outcome, download->address());
    }
    waiting_.push_back(std::move(download));
  }

  void tell(bool waits) const {
    if (!options_.progress) return;
    PullProgress progress{
        .files_total = plan_.missing_files, .bytes_total = plan_.missing_bytes, .waits = waits};
    for (const auto& one : finished_) progress.bytes_done += one->file().size;
    progress.files_done = std::ssize(finished_);
    for (const auto* list : {&waiting_, &running_}) {
      for (const auto& one : *list) progress.bytes_done += one->done();
    }
    options_.progress(progress);
  }

  const ModelName& name_;
  const PullOptions& options_;
  std::string endpoint_, token_;
  Listing listing_;
  std::vector<RemoteFile> files_;
  PullPlan plan_;
  Repository repository_;
  std::vector<std::unique_ptr<Download>> waiting_, running_, finished_;
  // Ends before what it writes to.
  Client client_;
};

}  // namespace
}  // namespace longformer::hub

namespace longformer {

PulledModel pull_model(const std::string& name, const PullOptions& options) {
  const hub::ModelName parts = hub::model_name(name);
  require(hub::is_repository(parts.repository) && hub::is_revision(parts.revision),
          "expected a model of the Hub, org/name or org/name@revision, found {}",
          formats::quote(name));
  require(!hub::is_offline(), "{}: expected leave to fetch it, found HF_HUB_OFFLINE set", name);
  try {
    return hub::Pull(parts, options).run();
  } catch (const Error& error) {
    ErrorParts told = error.parts();
    if (told.subject.empty() && !told.reason.starts_with(parts.repository)) {
      told.subject = parts.repository;
    }
    throw Error(std::move(told));
  }
}

}  // namespace longformer
