// Models of the Hub, fetched into the cache that huggingface_hub uses too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace longformer {

/// Told before anything is fetched.
struct PullPlan {
  /// Name without revision, the revision, and the commit that it is.
  std::string repository, revision, commit;
  /// Address of the Hub, and the folder of the cache.
  std::string endpoint, cache;
  /// Files of the model that are read, and those that are not in the cache.
  std::int64_t files = 0, bytes = 0;
  std::int64_t missing_files = 0, missing_bytes = 0;
};

struct PullProgress {
  std::int64_t files_done = 0, files_total = 0;
  /// Those of earlier calls that were broken off count as done.
  std::int64_t bytes_done = 0, bytes_total = 0;
  /// Whether the files that are left are being fetched by another process.
  bool waits = false;
};

/// Called from the calling thread; each may be empty. Throwing from one stops the work.
struct PullOptions {
  std::function<void(const PullPlan&)> plan = {};
  std::function<void(const PullProgress&)> progress = {};
  /// fetched_model alone: why a model whose weights could not be fetched is taken without them.
  std::function<void(const std::string&)> note = {};
};

struct PulledModel {
  /// The snapshot, a folder of links.
  std::string folder;
  std::string commit;
  /// Files of the model, and those that were fetched now.
  std::int64_t files = 0, bytes = 0;
  std::int64_t fetched_files = 0, fetched_bytes = 0;
};

/// Fetches `org/name` or `org/name@revision` (a branch, a tag or a commit; main by default), or
/// what is missing of it: the files that the library reads, several at a time, each checked by the
/// hash that the Hub lists (SHA-256, or git's for small files). Weights are those of safetensors,
/// and of PyTorch where there are no others. Whatever ends the work, the next call goes on with
/// what is there. Calls of several processes at once fetch each file once. The cache is that of
/// find_model; HF_ENDPOINT, HF_TOKEN and its file, HF_HUB_OFFLINE and HF_HUB_DOWNLOAD_TIMEOUT
/// count, and the variables of libcurl for proxies. The token goes to that address alone, and only
/// if it has TLS or is this machine. Asks Interruption::poll. Throws Error.
PulledModel pull_model(const std::string& name, const PullOptions& options = {});

}  // namespace longformer
