#include "server.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>

#include "failure.h"
#include "longformer/report.h"
#include "version.h"

namespace longformer::server {
namespace {

using Clock = std::chrono::steady_clock;

/// The client of a request is gone, or the server ends.
class Gone {};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The time depends on the length of the given text alone, so it tells nothing of the key.
bool is_same_key(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto other = static_cast<unsigned char>(key[i % key.size()]);
    difference |= static_cast<unsigned char>(given[i]) ^ other;
  }
  return difference == 0;
}

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool is_own_name(std::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

/// Whether a request needs no key.
bool is_open(const HttpRequest& head) {
  if (head.method == "OPTIONS") return true;
  const std::string& path = head.path;
  if (head.method != "GET" && head.method != "HEAD") return false;
  return path == "/" || path == "/health" || path == "/ping" || path == "/metrics";
}

std::string whole_ms(double seconds) { return std::to_string(std::lround(seconds * 1000)); }

/// Anything but printable ASCII is escaped: a log is read in terminals.
std::string printable(std::string_view text) {
  std::string safe;
  for (const char c : text.substr(0, 200)) {
    if (c > ' ' && c < 0x7f && c != '\\') {
      safe += c;
    } else {
      fmt::format_to(std::back_inserter(safe), "\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return safe;
}

std::string_view kind_of(const std::string& path) {
  if (path.find("embed") != std::string::npos) return "embed";
  if (path == "/predict" || path == "/classify" || path.ends_with("/rerank")) return "predict";
  return "";
}

std::string_view failure_kind(const Failure& failure) {
  if (failure.status() == 429) return "overloaded";
  if (failure.status() == 424) {
    return std::string_view(failure.what()).find(" is not ") != std::string_view::npos
               ? "model_type"
               : "inference";
  }
  if (failure.type() == "Tokenizer") return "tokenization";
  return std::string_view(failure.what()).starts_with("batch size") ? "batch_size" : "validation";
}

/// The wait is an estimate.
Failure overloaded(double seconds) {
  const auto after = std::clamp(std::lround(std::ceil(seconds)), 1L, 120L);
  return {429, "Overloaded", "Model is overloaded", {{"Retry-After", std::to_string(after)}}};
}

/// The id of the client where it is short and printable, else one that nobody else has.
std::string id_of(const HttpRequest& request) {
  const auto id = request.header("x-request-id");
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7f; };
  if (id && !id->empty() && id->size() <= 128 && std::ranges::all_of(*id, is_plain)) {
    return std::string(*id);
  }
  return fmt::format("{:x}", request.arrival.time_since_epoch().count());
}

}  // namespace

/// Times of one request, and its end.
struct Server::Served {
  Clock::time_point taken;
  double tokenization = 0, queue = 0, inference = 0;
  std::string_view failure = {};
};

Server::Server(Api& api, ServerOptions options)
    : api_(api),
      options_(std::move(options)),
      http_(options_.http, *this),
      desks_(static_cast<std::size_t>(api.options().most_requests), {.work = options_.rest}) {
  api_.set_gauges([this] { return gauges(); });
}

void Server::run() {
  http_.run();
  ends_ = true;
}

bool is_loopback(std::string_view hostname) {
  return hostname == "localhost" || hostname == "::1" || hostname.starts_with("127.");
}

/// A page of a stranger must not reach a server on this machine by a name that it made up (DNS
/// rebinding), and must not ask at all.
void Server::check_origin(const HttpRequest& head) const {
  std::string host(head.header("host").value_or(""));
  std::ranges::transform(host, host.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool knows_host =
      !is_loopback(options_.http.hostname) || !options_.api_key.empty() ||
      is_own_name(without_port(host)) ||
      std::ranges::find(options_.allowed_hosts, without_port(host)) != options_.allowed_hosts.end();
  if (!knows_host) {
    throw Failure(403, "Validation",
                  "expected the host localhost, 127.0.0.1 or [::1], or one of --allowed-host");
  }
  const auto origin = head.header("origin");
  if (!origin || *origin == fmt::format("http://{}", host) ||
      *origin == fmt::format("https://{}", host)) {
    return;
  }
  const auto& allowed = options_.allowed_origins;
  if (std::ranges::find(allowed, *origin) != allowed.end() ||
      std::ranges::find(allowed, "*") != allowed.end()) {
    return;
  }
  throw Failure(403, "Validation", "expected a page of this server, or --cors-allow-origin");
}

void Server::check_key(const HttpRequest& head) const {
  if (options_.api_key.empty() || is_open(head)) return;
  const std::string_view header = head.header("authorization").value_or("");
  constexpr std::string_view kBearer = "Bearer ";
  const bool has_key =
      header.starts_with(kBearer) && is_same_key(header.substr(kBearer.size()), options_.api_key);
  if (!has_key) {
    throw Failure(401, "Validation", "expected the key of this server as Authorization: Bearer",
                  {{"WWW-Authenticate", "Bearer"}});
  }
}

std::optional<HttpResponse> Server::refuse(const HttpRequest& head) {
  try {
    if (stops_) throw Failure(503, "Unhealthy", "the server stops", {{"Retry-After", "1"}});
    check_origin(head);
    check_key(head);
    if (head.method == "OPTIONS") {
      HttpResponse response = {.status = 204};
      add_cors(head, response);
      return response;
    }
    std::vector<std::string> parts;
    const Route& route = Api::find(head, parts);
    if (route.fields != nullptr) admit(head);
    return std::nullopt;
  } catch (const Failure& failure) {
    api_.metrics().add({.failure = failure_kind(failure)});
    note(head, failure.status(), seconds_since(head.arrival), 0);
    HttpResponse response = response_of(failure, head.path);
    response.headers.emplace_back("x-request-id", id_of(head));
    return response;
  }
}

/// The wait is estimated before anything of the body is read: who would wait too long hears it at
/// once.
void Server::admit(const HttpRequest& request) const {
  const Model* model = nullptr;
  for (const auto& served : api_.models().all) {
    if (model == nullptr) model = served->model();
  }
  double wait = 0;
  if (model != nullptr) {
    std::int64_t bytes = 0;
    const std::string length(request.header("content-length").value_or("0"));
    if (!length.empty() && length.size() < 18) bytes = std::atoll(length.c_str());
    wait = model->seconds_before(bytes / 4);
  }
  if (under_way_ >= api_.options().most_requests || wait > api_.options().most_wait) {
    throw overloaded(wait);
  }
}

void Server::handle(std::shared_ptr<HttpExchange> exchange) {
  ++under_way_;
  const bool is_light = exchange->request().method != "POST";
  auto work = [this, exchange = std::move(exchange), taken = Clock::now()]() mutable {
    serve(exchange, taken);
    // The client may have the answer before; it must not count as under way for long.
    exchange.reset();
    --under_way_;
  };
  desks_.post(std::move(work), is_light);
}

void Server::serve(const std::shared_ptr<HttpExchange>& exchange, Clock::time_point taken) {
  ApiCall call = {.request = exchange->request(), .exchange = exchange};
  call.id = id_of(call.request);
  Served served = {.taken = taken, .queue = seconds_since(taken)};
  const Interruption interruption([&] {
    if (exchange->is_gone() || ends_) throw Gone();
    if (call.meanwhile) call.meanwhile();
  });
  try {
    std::optional<HttpResponse> response;
    const auto begin = Clock::now();
    const double waited = Model::seconds_waited(), encoded = Tokenizer::seconds_spent();
    try {
      response = api_.answer(call);
    } catch (const Failure& failure) {
      served.failure = failure_kind(failure);
      response = response_of(failure, call.request.path);
    } catch (const Error& error) {
      const Failure failure = failure_of(error, "inputs");
      served.failure = failure_kind(failure);
      response = response_of(failure, call.request.path);
    } catch (const Gone&) {
      throw;
    } catch (const std::bad_alloc&) {
      const Failure failure(424, "Backend", "the memory of the server is not enough for this");
      served.failure = "inference";
      response = response_of(failure, call.request.path);
    } catch (const std::exception& error) {
      const Failure failure(500, "Backend",
                            fmt::format("an error of the server: {}", error.what()));
      served.failure = "inference";
      response = response_of(failure, call.request.path);
    }
    const double in_queue = Model::seconds_waited() - waited;
    served.queue += in_queue;
    served.tokenization = Tokenizer::seconds_spent() - encoded;
    served.inference = std::max(0.0, seconds_since(begin) - in_queue - served.tokenization);
    finish(call, served, std::move(response));
  } catch (const Gone&) {
    served.failure = "dropped";
    finish(call, served,
           response_of(Failure(503, "Unhealthy", "the server stops"), call.request.path));
  }
}

/// Headers of the answer, and everybody who counts.
void Server::finish(const ApiCall& call, const Served& served,
                    std::optional<HttpResponse> response) {
  const HttpRequest& request = call.request;
  const double total = seconds_since(request.arrival);
  const int status = response ? response->status : 200;
  if (response) {
    if (call.lengths.tokens > 0 && status == 200) {
      const Lengths& lengths = call.lengths;
      for (auto& [name, value] :
           Fields{{"x-compute-type", "cpu"},
                  {"x-compute-time", whole_ms(served.tokenization + served.inference)},
                  {"x-total-time", whole_ms(total)},
                  {"x-tokenization-time", whole_ms(served.tokenization)},
                  {"x-queue-time", whole_ms(served.queue)},
                  {"x-inference-time", whole_ms(served.inference)},
                  {"x-compute-characters", std::to_string(lengths.characters)},
                  {"x-compute-tokens", std::to_string(lengths.tokens)},
                  {"x-truncated-tokens", std::to_string(lengths.truncated)},
                  {"x-segments", std::to_string(lengths.segments)}}) {
        response->headers.emplace_back(std::move(name), std::move(value));
      }
    }
    response->headers.emplace_back("x-request-id", call.id);
    add_cors(request, *response);
    call.exchange->respond(std::move(*response));
  }
  api_.metrics().add({.is_batch = call.lengths.inputs > 1,
                      .kind = kind_of(request.path),
                      .failure = served.failure,
                      .model = call.used_model,
                      .tokens = call.lengths.tokens,
                      .total = total,
                      .tokenization = served.tokenization,
                      .queue = served.queue,
                      .inference = served.inference});
  note(request, status, total, call.lengths.tokens);
}

void Server::add_cors(const HttpRequest& request, HttpResponse& response) const {
  const auto origin = request.header("origin");
  if (!origin || options_.allowed_origins.empty()) return;
  response.headers.emplace_back("Access-Control-Allow-Origin", std::string(*origin));
  response.headers.emplace_back("Vary", "Origin");
  response.headers.emplace_back("Access-Control-Allow-Headers", "authorization, content-type");
  response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
}

HttpResponse Server::failure(int status, std::string_view reason) {
  if (status == 429) {
    const Failure failure = overloaded(gauges().backlog_seconds);
    api_.metrics().add({.failure = failure_kind(failure)});
    return response_of(failure, "");
  }
  const std::string type = status == 503 ? "Unhealthy" : status == 500 ? "Backend" : "Validation";
  return response_of(Failure(status, type, std::string(reason)), "");
}

MetricGauges Server::gauges() const {
  double backlog = 0;
  std::int64_t preemptions = 0;
  for (const auto& served : api_.models().all) {
    const Model* model = served->model();
    if (model == nullptr) continue;
    backlog = std::max(backlog, model->seconds_before(1 << 30));
    // Models share their turns.
    preemptions = std::max(preemptions, model->turns_lent());
  }
  return {.connections = http_.connections(),
          .queued = desks_.waiting(),
          .preemptions = preemptions,
          .backlog_seconds = backlog,
          .version = kVersion,
          .isa = std::string(instruction_set())};
}

void Server::note(const HttpRequest& request, int status, double seconds,
                  std::int64_t tokens) const {
  if (!options_.log) return;
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const std::string time = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
  const std::string path = printable(request.path);
  const std::lock_guard lock(log_mutex_);
  if (options_.log_is_json) {
    JsonLine json;
    json.add("time", time).add("method", printable(request.method)).add("path", path);
    json.add("status", std::int64_t{status}).add("ms", std::int64_t{std::lround(seconds * 1000)});
    json.add("tokens", tokens).add("peer", request.peer);
    options_.log(json.object());
  } else {
    options_.log(fmt::format("{} {} {} {} {} ms {} tokens {}", time, printable(request.method),
                             path, status, std::lround(seconds * 1000), tokens, request.peer));
  }
}

void Server::stop() {
  // Whoever is told at the end of the grace needs a moment for it.
  constexpr std::chrono::milliseconds kToTell(2'000);
  stops_ = true;
  http_.stop(options_.grace + kToTell);
}

}  // namespace longformer::server
