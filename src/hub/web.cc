#include "hub/web.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "core/error.h"
#include "core/loaded_library.h"

namespace longformer::hub {
namespace {

/// The functions of libcurl that are used.
struct Curl {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

Curl loaded() {
  // Debian has it with OpenSSL and with GnuTLS, under two names.
  const LoadedLibrary library({"fetching", "libcurl 7.85 or later", "libcurl4"},
                              std::array{"libcurl.so.4", "libcurl-gnutls.so.4"});
  Curl curl;
  library.find("curl_global_init", curl.global_init);
  library.find("curl_easy_init", curl.easy_init);
  library.find("curl_easy_setopt", curl.easy_setopt);
  library.find("curl_easy_getinfo", curl.easy_getinfo);
  library.find("curl_easy_strerror", curl.easy_strerror);
  library.find("curl_easy_cleanup", curl.easy_cleanup);
  library.find("curl_multi_init", curl.multi_init);
  library.find("curl_multi_add_handle", curl.multi_add_handle);
  library.find("curl_multi_remove_handle", curl.multi_remove_handle);
  library.find("curl_multi_perform", curl.multi_perform);
  library.find("curl_multi_poll", curl.multi_poll);
  library.find("curl_multi_info_read", curl.multi_info_read);
  library.find("curl_multi_cleanup", curl.multi_cleanup);
  library.find("curl_slist_append", curl.slist_append);
  library.find("curl_slist_free_all", curl.slist_free_all);
  require(curl.global_init(CURL_GLOBAL_ALL) == CURLE_OK, "libcurl could not start");
  return curl;
}

const Curl& curl() {
  static const Curl library = loaded();
  return library;
}

struct EndEasy {
  void operator()(CURL* easy) const { curl().easy_cleanup(easy); }
};
struct EndMulti {
  void operator()(CURLM* multi) const { curl().multi_cleanup(multi); }
};
struct EndHeaders {
  void operator()(curl_slist* list) const { curl().slist_free_all(list); }
};
using Headers = std::unique_ptr<curl_slist, EndHeaders>;

/// A transfer with its handle of libcurl.
struct Running {
  Transfer* transfer = nullptr;
  Headers headers = {};
  std::unique_ptr<CURL, EndEasy> easy = {};
  AnswerHead head = {};
  bool has_begun = false;
  std::exception_ptr thrown = {};
  std::array<char, CURL_ERROR_SIZE> reason = {};

  void begin() {
    has_begun = true;
    curl().easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &head.status);
    const char* redirect = nullptr;
    curl().easy_getinfo(easy.get(), CURLINFO_REDIRECT_URL, &redirect);
    if (redirect != nullptr) head.redirect = redirect;
    if (head.is_good()) transfer->begin(head);
  }
};

std::size_t take_bytes(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& running = *static_cast<Running*>(user);
  try {
    if (!running.has_begun) running.begin();
    // The page that explains a refusal is for browsers.
    if (running.head.is_good()) running.transfer->take({bytes, size * count});
    return size * count;
  } catch (...) {
    running.thrown = std::current_exception();
    return size * count + 1;
  }
}

std::size_t take_header(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& running = *static_cast<Running*>(user);
  std::string line(bytes, size * count);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
    line.pop_back();
  }
  constexpr std::size_t kMost = 100;
  if (line.starts_with("HTTP/")) running.head.headers.clear();
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos || running.head.headers.size() >= kMost) return size * count;
  std::string name = line.substr(0, colon);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::size_t begin = line.find_first_not_of(' ', colon + 1);
  running.head.headers[name] = begin == std::string::npos ? "" : line.substr(begin);
  return size * count;
}

Fault fault_of(CURLcode code) {
  constexpr std::array kUnreachable = {CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_RESOLVE_HOST,
                                       CURLE_COULDNT_CONNECT};
  constexpr std::array kBroken = {
      CURLE_PARTIAL_FILE, CURLE_OPERATION_TIMEDOUT, CURLE_GOT_NOTHING,
      CURLE_SEND_ERROR,   CURLE_RECV_ERROR,         CURLE_HTTP2,
      CURLE_HTTP2_STREAM, CURLE_SSL_CONNECT_ERROR,  CURLE_WEIRD_SERVER_REPLY};
  if (code == CURLE_OK) return Fault::none;
  if (std::ranges::find(kUnreachable, code) != kUnreachable.end()) return Fault::unreachable;
  return std::ranges::find(kBroken, code) != kBroken.end() ? Fault::broken : Fault::final;
}

const char* from_environment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return nullptr;
}

}  // namespace

std::string AnswerHead::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

class Client::Implementation {
 public:
  explicit Implementation(ClientOptions options)
      : options_(std::move(options)), multi_(curl().multi_init()) {
    require(multi_ != nullptr, "libcurl could not start");
  }
  ~Implementation() {
    for (const auto& one : running_) curl().multi_remove_handle(multi_.get(), one->easy.get());
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  void start(Transfer& transfer) {
    auto running = std::make_unique<Running>();
    running->transfer = &transfer;
    running->easy.reset(curl().easy_init());
    require(running->easy != nullptr, "libcurl could not start a transfer");
    prepare(*running);
    const CURLMcode code = curl().multi_add_handle(multi_.get(), running->easy.get());
    require(code == CURLM_OK, "libcurl could not start a transfer (code {})",
            static_cast<int>(code));
    running_.push_back(std::move(running));
  }

  std::size_t under_way() const { return running_.size(); }

  std::vector<Outcome> wait(std::chrono::milliseconds time) {
    int active = 0;
    curl().multi_perform(multi_.get(), &active);
    std::vector<Outcome> ended = outcomes();
    if (!ended.empty()) return ended;
    curl().multi_poll(multi_.get(), nullptr, 0, static_cast<int>(time.count()), nullptr);
    curl().multi_perform(multi_.get(), &active);
    return outcomes();
  }

 private:
  template <typename Value>
  void set(const Running& running, CURLoption option, Value value) const {
    const CURLcode code = curl().easy_setopt(running.easy.get(), option, value);
    require(code == CURLE_OK, "expected libcurl 7.85 or later, found one without option {}",
            static_cast<int>(option));
  }

  void prepare(Running& running) const {
    set(running, CURLOPT_ERRORBUFFER, running.reason.data());
    set(running, CURLOPT_URL, running.transfer->address().c_str());
    set(running, CURLOPT_USERAGENT, "longformer.cpp");
    set(running, CURLOPT_PROTOCOLS_STR, "http,https");
    set(running, CURLOPT_REDIR_PROTOCOLS_STR, options_.allows_plain ? "http,https" : "https");
    set(running, CURLOPT_NOBODY, running.transfer->is_head() ? 1L : 0L);
    set(running, CURLOPT_FOLLOWLOCATION, running.transfer->is_head() ? 0L : 1L);
    set(running, CURLOPT_MAXREDIRS, 10L);
    set(running, CURLOPT_NOSIGNAL, 1L);
    set(running, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    const auto seconds = static_cast<long>(options_.patience.count());
    set(running, CURLOPT_CONNECTTIMEOUT, seconds);
    set(running, CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(running, CURLOPT_LOW_SPEED_TIME, seconds);
    // The program curl reads them too: certificates of a company's own proxy.
    if (const char* file = from_environment({"CURL_CA_BUNDLE", "SSL_CERT_FILE"})) {
      set(running, CURLOPT_CAINFO, file);
    }
    if (const char* folder = from_environment({"SSL_CERT_DIR"})) {
      set(running, CURLOPT_CAPATH, folder);
    }
    if (!options_.token.empty()) {
      // libcurl itself leaves this header out where a redirect leads elsewhere.
      const std::string header = "Authorization: Bearer " + options_.token;
      running.headers.reset(curl().slist_append(nullptr, header.c_str()));
      set(running, CURLOPT_HTTPHEADER, running.headers.get());
    }
    if (const auto first = running.transfer->first(); first > 0) {
      set(running, CURLOPT_RANGE, fmt::format("{}-", first).c_str());
    }
    set(running, CURLOPT_WRITEFUNCTION, &take_bytes);
    set(running, CURLOPT_WRITEDATA, static_cast<void*>(&running));
    set(running, CURLOPT_HEADERFUNCTION, &take_header);
    set(running, CURLOPT_HEADERDATA, static_cast<void*>(&running));
  }

  std::vector<Outcome> outcomes() {
    std::vector<Outcome> ended;
    int left = 0;
    while (const CURLMsg* message = curl().multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      const auto found = std::ranges::find_if(
          running_, [&](const auto& one) { return one->easy.get() == message->easy_handle; });
      if (found == running_.end()) continue;
      const std::unique_ptr<Running> running = std::move(*found);
      running_.erase(found);
      curl().multi_remove_handle(multi_.get(), running->easy.get());
      ended.push_back(outcome_of(*running, code));
    }
    return ended;
  }

  static Outcome outcome_of(Running& running, CURLcode code) {
    if (code == CURLE_OK && !running.has_begun) {
      try {
        running.begin();
      } catch (...) {
        running.thrown = std::current_exception();
      }
    }
    const char* reason =
        running.reason[0] != '\0' ? running.reason.data() : curl().easy_strerror(code);
    return {.transfer = running.transfer,
            .head = std::move(running.head),
            .fault = fault_of(code),
            .reason = reason,
            .thrown = running.thrown};
  }

  ClientOptions options_;
  std::unique_ptr<CURLM, EndMulti> multi_;
  std::vector<std::unique_ptr<Running>> running_;
};

Client::Client(ClientOptions options)
    : implementation_(std::make_unique<Implementation>(std::move(options))) {}
Client::~Client() = default;

void Client::start(Transfer& transfer) { implementation_->start(transfer); }
std::size_t Client::under_way() const { return implementation_->under_way(); }
std::vector<Outcome> Client::wait(std::chrono::milliseconds time) {
  return implementation_->wait(time);
}

}  // namespace longformer::hub
