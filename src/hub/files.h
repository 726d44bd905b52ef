// The files of a repository on the Hub, and those of them that this program reads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::hub {

/// A folder with none of these is no model and no adapter.
inline constexpr const char* kConfigurations[] = {"config.json", "modules.json",
                                                  "adapter_config.json"};

struct RemoteFile {
  /// Path inside the repository.
  std::string name = {};
  std::int64_t size = 0;
  /// SHA-256 of a large file (64 digits), git's SHA-1 of another (40): the ETag of the Hub, and the
  /// name in the cache.
  std::string hash = {};
};

/// A repository at one commit.
struct Listing {
  std::string commit = {};
  std::vector<RemoteFile> files = {};

  const RemoteFile* find(std::string_view name) const;
};

/// Reads the answer of /api/models/NAME/revision/REVISION?blobs=true, which is not trusted: a name
/// that leads out of its folder, a hash that is none or a size below 0 is an Error. `name` stands
/// for the repository in messages.
Listing parse_listing(std::string_view json, const std::string& name);

/// Gives the text of a small file of the listing.
using ReadFile = std::function<std::string(const RemoteFile&)>;

/// The files that the program reads: configurations, the tokenizer, the weights of the first format
/// that it takes, and those of the modules that modules.json and router_config.json name, which
/// `read` gives. Throws Error, with what was found and what makes it readable, where there is no
/// model, or weights of other formats alone.
std::vector<RemoteFile> files_to_read(const Listing& listing, const std::string& name,
                                      const ReadFile& read);

}  // namespace longformer::hub
