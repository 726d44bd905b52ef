// longformer serve: models over HTTP.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <thread>

#include "advice.h"
#include "api.h"
#include "health.h"
#include "longformer/error.h"
#include "longformer/search.h"
#include "output.h"
#include "server.h"
#include "stop_signals.h"
#include "verbs.h"

namespace longformer::cli {
namespace {

struct ServeFlags {
  std::vector<std::string> models, adapters, allowed_hosts, origins, int8_skip;
  std::string dtype = "fp32", api_key, api_key_file, index, too_long = "split", served_name,
              pooling, prompt_name, prompt, payload = "64MiB", library = "1GiB",
              hostname = "127.0.0.1";
  std::int64_t threads = 0, port = 8080, requests = 512, batch_tokens = 16384, inputs = 2048,
               wait = 300, connections = 4096, header_seconds = 10, body_seconds = 60, grace = 30,
               ignored = 0;
  bool reuse_port = false, json_log = false, check = false, truncates = false, by_arrival = false;
};

/// "64MiB", "1GB" or a number of bytes.
std::int64_t bytes_of(const std::string& text, const char* flag) {
  std::size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0)
    ++digits;
  static const std::map<std::string, std::int64_t> units = {
      {"", 1},         {"B", 1},         {"kB", 1000},       {"KB", 1000},    {"KiB", 1 << 10},
      {"MB", 1000000}, {"MiB", 1 << 20}, {"GB", 1000000000}, {"GiB", 1 << 30}};
  const auto unit = units.find(text.substr(digits));
  if (digits == 0 || digits > 9 || unit == units.end()) {
    throw UsageError(flag, fmt::format("expected bytes such as 64MiB, found '{}'", text));
  }
  return std::stoll(text.substr(0, digits)) * unit->second;
}

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  if (!in || !std::getline(in, line)) {
    throw UsageError(
        "--api-key-file",
        fmt::format("expected a file with the key in its first line, found '{}'", file));
  }
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0)
    line.pop_back();
  if (line.empty())
    throw UsageError("--api-key-file", "expected a key in the first line, found none");
  return line;
}

std::string key_of(const ServeFlags& flags, Messages& messages) {
  if (!flags.api_key_file.empty()) return first_line(flags.api_key_file);
  if (!flags.api_key.empty()) {
    messages.note(
        "--api-key shows in lists of processes; --api-key-file and LONGFORMER_API_KEY do not");
    return flags.api_key;
  }
  const char* key = std::getenv("LONGFORMER_API_KEY");
  return key == nullptr ? "" : key;
}

TooLong too_long_of(const ServeFlags& flags) {
  if (flags.truncates) return TooLong::truncate;
  if (flags.too_long == "truncate") return TooLong::truncate;
  return flags.too_long == "refuse" ? TooLong::refuse : TooLong::split;
}

server::ApiOptions api_options(const ServeFlags& flags) {
  server::ApiOptions options;
  options.too_long = too_long_of(flags);
  options.most_inputs = flags.inputs;
  options.most_requests = flags.requests;
  options.most_wait = static_cast<double>(flags.wait);
  options.batch_tokens = flags.batch_tokens;
  options.served_name = flags.served_name;
  if (!flags.prompt_name.empty()) options.prompt_name = flags.prompt_name;
  if (!flags.prompt.empty()) options.prompt = flags.prompt;
  options.is_sparse = flags.pooling == "splade";
  if (!options.is_sparse && !flags.pooling.empty()) options.pooling = pooling(flags.pooling);
  return options;
}

server::ServerOptions server_options(const ServeFlags& flags, Messages& messages) {
  server::ServerOptions options;
  options.http.hostname = flags.hostname;
  options.http.port = static_cast<int>(flags.port);
  options.http.reuse_port = flags.reuse_port;
  options.http.most_body_bytes =
      static_cast<std::size_t>(bytes_of(flags.payload, "--payload-limit"));
  options.http.most_held_bytes =
      std::max(options.http.most_held_bytes, options.http.most_body_bytes);
  options.http.most_connections = static_cast<std::size_t>(flags.connections);
  options.http.header_timeout = std::chrono::seconds(flags.header_seconds);
  options.http.body_timeout = std::chrono::seconds(flags.body_seconds);
  options.grace = std::chrono::seconds(flags.grace);
  options.api_key = key_of(flags, messages);
  options.allowed_hosts = flags.allowed_hosts;
  options.allowed_origins = flags.origins;
  options.log_is_json = flags.json_log;
  options.log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  if (!server::is_loopback(flags.hostname) && options.api_key.empty()) {
    messages.note(
        fmt::format("whoever reaches {} may use this server: it has no key (LONGFORMER_API_KEY)",
                    flags.hostname));
  }
  return options;
}

/// Throws UsageError for layers of a model that nobody serves.
void check_skipped(const ServeFlags& flags, const server::LoadedModels& models) {
  for (const std::string& one : flags.int8_skip) {
    const server::SkippedLayer skipped(one);
    if (!skipped.model || models.find(*skipped.model) != nullptr) continue;
    throw UsageError("--int8-skip", fmt::format("expected MODEL:LAYER of a model that is served, "
                                                "found {}",
                                                in_quotes(one)));
  }
}

server::LoadedModels load_models(const ServeFlags& flags, Messages& messages,
                                 const std::shared_ptr<server::Metrics>& metrics,
                                 const std::shared_ptr<Turns>& turns) {
  server::LoadedModels models;
  LoadOptions options = {.dtype = flags.dtype,
                         .int8_skip = flags.int8_skip,
                         .threads = static_cast<int>(flags.threads),
                         .note = [&messages](const std::string& text) { messages.note(text); }};
  options.turns = turns;
  if (!flags.adapters.empty()) options.layers = shared_layers();
  options.pass = [metrics](const PassReport& pass) { metrics->add(pass); };
  const auto add = [&models](std::unique_ptr<const server::ServedModel> model,
                             const std::string& argument) {
    if (models.find(model->name) != nullptr) {
      throw Error(
          fmt::format("two models are called '{}': give one as NAME={}", model->name, argument));
    }
    models.all.push_back(std::move(model));
  };
  for (const std::string& argument : flags.models) {
    add(server::load_served(argument, options), argument);
  }
  check_skipped(flags, models);
  server::LoadedModels adapted;
  for (const std::string& argument : flags.adapters) {
    adapted.all.push_back(server::load_adapter(argument, models, options));
  }
  for (std::size_t i = 0; i < adapted.all.size(); ++i) {
    add(std::move(adapted.all[i]), flags.adapters[i]);
  }
  return models;
}

/// A short and a longer pass of each model: pages are read, products compiled, and the time of a
/// pass is known. On a thread of its own, whose team ends with it.
void warm_up(const server::LoadedModels& models) {
  for (const auto& served : models.all) {
    const Model* model = served->model();
    if (model == nullptr) continue;
    const auto most = model->info().max_tokens;
    for (const std::int64_t tokens :
         {std::min<std::int64_t>(16, most), std::min<std::int64_t>(512, most)}) {
      const std::int64_t id = model->info().pad_token_id == 0 ? 1 : 0;
      const std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens),
                                          static_cast<std::int32_t>(id));
      const std::vector<std::int32_t> none(ids.size(), 0);
      const DocumentInput input{.ids = ids,
                                .attention_mask = {},
                                .token_type_ids = {},
                                .position_ids = {},
                                .global_attention_mask = model->info().has_global_attention
                                                             ? std::span<const std::int32_t>(none)
                                                             : std::span<const std::int32_t>()};
      model->forward({&input, 1}, {.head = false});
    }
  }
}

/// Tells systemd (Type=notify) of a state: one datagram.
void notify_systemd(const char* state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string_view name = path;
  if (name.size() >= sizeof(address.sun_path)) return;
  std::ranges::copy(name, address.sun_path);
  if (name[0] == '@') address.sun_path[0] = '\0';
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  sendto(socket, state, std::strlen(state), MSG_NOSIGNAL,
         reinterpret_cast<const sockaddr*>(&address), size);
  close(socket);
}

/// Throws Error for a file that is no index of the model.
void check_index(const ServeFlags& flags, const Embedder& embedder, Messages& messages) {
  if (flags.index.empty()) return;
  if (std::filesystem::exists(flags.index)) {
    static_cast<void>(SearchIndex::open(flags.index, embedder));
  } else {
    messages.note(
        fmt::format("index '{}': not there yet: serving without --check makes it", flags.index));
  }
}

void serve(const ServeFlags& flags, Messages& messages) {
  if (flags.models.empty()) {
    constexpr std::chrono::seconds kLimit(5);
    const int port = static_cast<int>(flags.port);
    fmt::print("{} takes requests\n", server::ask_health(flags.hostname, port, kLimit));
    return;
  }
  const StopSignals signals;
  server::ServerOptions options = server_options(flags, messages);
  const auto metrics = std::make_shared<server::Metrics>();
  const std::shared_ptr<Turns> turns = shared_turns(flags.by_arrival);
  options.rest = [turns] {
    release_memory(*turns);
    // Bodies, vectors and JSON lay in the heap.
    malloc_trim(0);
  };
  server::LoadedModels models = load_models(flags, messages, metrics, turns);
  std::async(std::launch::async, [&] { warm_up(models); }).get();
  options.rest();
  const Embedder* embedder = nullptr;
  for (const auto& model : models.all) {
    if (embedder == nullptr && model->embedder) embedder = &*model->embedder;
  }
  std::unique_ptr<server::Library> library;
  if (embedder != nullptr) {
    const server::LibraryLimits limits = {.bytes = bytes_of(flags.library, "--max-library"),
                                          .batch_tokens = flags.batch_tokens};
    // A check changes nothing.
    if (flags.check) check_index(flags, *embedder, messages);
    library = std::make_unique<server::Library>(*embedder, flags.check ? "" : flags.index, limits);
  } else if (!flags.index.empty()) {
    throw UsageError("--index", "expected an embedding model among the models, found none");
  }
  server::Api api(std::move(models), std::move(library), metrics, api_options(flags));
  if (flags.check) {
    for (const auto& model : api.models().all) {
      fmt::print("{}\t{}\t{}\n", model->name, model->writer ? "summarization" : model->info.head,
                 model->folder);
    }
    return;
  }
  server::Server server(api, options);
  fmt::print("listening on http://{}\n", server.address());
  std::fflush(stdout);
  notify_systemd("READY=1");
  std::atomic<bool> ended = false;
  std::thread stopper([&] {
    while (signals.received() == 0 && !ended)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (ended) return;
    notify_systemd("STOPPING=1");
    server.stop();
    const auto end = std::chrono::steady_clock::now() + options.grace;
    while (!ended && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    server.give_up();
  });
  server.run();
  ended = true;
  stopper.join();
}

void add_limits(CLI::App& verb, ServeFlags& flags) {
  const auto number = [&](const char* name, std::int64_t& value, const char* help,
                          std::int64_t least) {
    limited(verb.add_option(name, value, help), {.least = least, .most = OptionField::kMostWhole})
        ->group("Limits");
  };
  number("--max-concurrent-requests", flags.requests, "requests under way; more are told 429 (512)",
         1);
  number("--max-client-batch-size", flags.inputs, "inputs of one request (2048)", 1);
  number("--max-batch-tokens", flags.batch_tokens, "tokens of one pass, or one segment (16384)", 1);
  number("--max-wait", flags.wait,
         "seconds a request may wait, by estimate, before it is told 429 (300)", 0);
  number("--max-connections", flags.connections, "open connections (4096)", 1);
  number("--header-timeout", flags.header_seconds, "seconds for the header of a request (10)", 1);
  number("--body-timeout", flags.body_seconds, "seconds for its body (60)", 1);
  number("--grace", flags.grace, "seconds that a stop waits for requests under way (30)", 0);
  verb.add_option("--payload-limit", flags.payload, "bytes of one request (64MiB)")
      ->type_name("SIZE")
      ->group("Limits");
  verb.add_option("--max-library", flags.library, "bytes of text of all documents (1GiB)")
      ->type_name("SIZE")
      ->group("Limits");
  number("--warmup-tokens", flags.ignored, "read for TEI's sake; nothing changes", 0);
  number("--tokenization-workers", flags.ignored, "read for TEI's sake; nothing changes", 0);
}

void add_safety(CLI::App& verb, ServeFlags& flags) {
  const char* safety = "Who may ask";
  verb.add_option("--api-key-file", flags.api_key_file,
                  "file whose first line is the key that clients must send")
      ->type_name("FILE")
      ->group(safety);
  verb.add_option("--api-key", flags.api_key, "the key itself; lists of processes show it")
      ->type_name("KEY")
      ->group(safety);
  verb.add_option("--allowed-host", flags.allowed_hosts, "name that Host may have; may be repeated")
      ->type_name("NAME")
      ->group(safety);
  verb.add_option("--cors-allow-origin", flags.origins,
                  "origin whose pages may ask; may be repeated")
      ->type_name("ORIGIN")
      ->group(safety);
}

}  // namespace

void add_serve(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<ServeFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "serve",
       .description = "Serve models over HTTP, with a page for readers.",
       .details = "MODEL is a folder, org/name of the Hub, or NAME= before either; several "
                  "may be given. The routes are those of text-embeddings-inference, OpenAI's "
                  "embeddings, Cohere's rerank and huggingface_hub's clients, and one for each "
                  "task. Long documents are read whole, in segments, unless a request or --long "
                  "says otherwise. The first line on stdout says where it listens. SIGTERM ends "
                  "it when the requests under way are done. Every flag can also be given as an "
                  "environment variable: LONGFORMER_ and its name, as LONGFORMER_PORT.",
       .examples =
           "longformer serve MODEL\n"
           "longformer serve embed=sentence-transformers/all-MiniLM-L6-v2 ner=MODEL --port 9000\n"
           "longformer serve MODEL --index library.index --dtype bf16\n"
           "longformer serve reviews=MODEL --adapter reviews:hotels=hotels-lora\n"
           "LONGFORMER_API_KEY=secret longformer serve MODEL --hostname 0.0.0.0\n"
           "longformer serve --check"});
  verb.add_option("MODEL", flags->models, "folders of models, or their names on the Hub")
      ->type_name("");
  verb.add_option("--adapter", flags->adapters,
                  "LoRA adapter of a model, NAME=FOLDER or BASE:NAME=FOLDER, which requests choose "
                  "by BASE:NAME; may be repeated")
      ->type_name("ADAPTER");
  verb.add_option("--hostname", flags->hostname, "address to listen to (127.0.0.1)")
      ->type_name("NAME");
  limited(verb.add_option("-p,--port", flags->port, "port; 0 takes a free one (8080)"),
          {.least = 0, .most = 65535});
  verb.add_flag("--reuse-port", flags->reuse_port, "let several processes listen to the port");
  verb.add_option("--long", flags->too_long,
                  "texts longer than the model: split, truncate or refuse (split)")
      ->check(CLI::IsMember({"split", "truncate", "refuse"}))
      ->type_name("WAY");
  verb.add_flag("--auto-truncate", flags->truncates, "the same as --long truncate");
  verb.add_option("--index", flags->index,
                  "file of the documents, as search --index writes it; else they are in memory")
      ->type_name("FILE");
  verb.add_option("--served-model-name", flags->served_name, "name in /info")->type_name("NAME");
  verb.add_option("--pooling", flags->pooling,
                  "cls, mean, max, lasttoken or mean_sqrt_len_tokens, else as the folder says; "
                  "splade: sparse vectors of a masked LM")
      ->type_name("NAME");
  verb.add_option("--default-prompt-name", flags->prompt_name,
                  "prompt of texts whose request names none")
      ->type_name("NAME");
  verb.add_option("--default-prompt", flags->prompt, "prefix of such texts")->type_name("TEXT");
  verb.add_option("--dtype", flags->dtype, "fp32, bf16 or int8 (fp32)")
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}))
      ->type_name("TYPE");
  add_int8_skip(verb, flags->int8_skip, "; NAME:LAYER for the model of that name alone");
  add_threads(verb, flags->threads);
  // For bench/serve.py: what a server with one queue does.
  verb.add_flag("--by-arrival", flags->by_arrival)->group("");
  verb.add_flag(
      "--check", flags->check,
      "load the models, print them, and end; without a MODEL: ask the server at --hostname "
      "and --port whether it takes requests, and end with code 1 if not");
  verb.add_flag("--json-output", flags->json_log, "the log as JSON lines");
  add_safety(verb, *flags);
  add_limits(verb, *flags);
  for (CLI::Option* option : verb.get_options()) {
    std::string name = option->get_lnames().empty() ? "" : option->get_lnames().front();
    if (name.empty() || name == "help") continue;
    for (char& c : name)
      c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    option->envname("LONGFORMER_" + name);
  }
  verb.callback([flags, &action] {
    // The question to a server that runs needs no model; other options may come from its
    // environment.
    if (flags->models.empty() && !flags->check) throw CLI::RequiredError("MODEL");
    action = [flags](Messages& messages) { serve(*flags, messages); };
  });
}

}  // namespace longformer::cli
