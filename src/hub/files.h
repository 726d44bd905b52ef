// The files of a repository on the Hub, and those of them that this program reads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::hub {

/// A folder with none of these is no model and no adapter.
inline constexpr const char* kConfigurations[] = {"config.json", "modules.json",
                                                  "adapter_config.json"};

/// The text of a member of an object; empty for another value, or where there is no such member.
std::string text_in(const nlohmann::ordered_json& object, const char* key);

/// Decide how a model is read where they are: a cache that other programs filled may lack them.
inline constexpr const char* kDecisive[] = {"modules.json", "tokenizer.json"};

/// Read where there is no tokenizer.json.
inline constexpr std::array<std::string_view, 7> kVocabularies = {
    "vocab.txt",      "vocab.json",   "merges.txt",
    "spm.model",      "spiece.model", "sentencepiece.bpe.model",
    "tokenizer.model"};

struct RemoteFile {
  /// Path inside the repository.
  std::string name = {};
  std::int64_t size = 0;
  /// SHA-256 of a large file (64 digits), git's SHA-1 of another (40): the ETag of the Hub, and the
  /// name in the cache.
  std::string hash = {};
  /// The size and the hash that the Hub gave where they are none: such a file cannot be fetched.
  std::string fault = {};

  /// Takes from a server's answer the size in bytes, -1 for none, and the hash in hexadecimal
  /// digits.
  void describe(std::int64_t size_of_it, std::string hash_of_it);
};

/// A repository at one commit.
struct Listing {
  std::string commit = {};
  std::vector<RemoteFile> files = {};

  const RemoteFile* find(std::string_view name) const;
};

/// Reads the answer of /api/models/NAME/revision/REVISION?blobs=true, which is not trusted: a file
/// whose name leads out of its folder is left out, as nothing reads it. Throws Error for what is no
/// such answer. `name` stands for the repository in messages.
Listing parse_listing(std::string_view json, const std::string& name);

/// Answers for one file of the listing.
struct FileAnswers {
  /// The text of a small one.
  std::function<std::string(const RemoteFile&)> text;
  /// Describes one that the listing only names, as those of mirrors do.
  std::function<void(RemoteFile&)> describe;
};

/// The files that the program reads: configurations, the tokenizer, the weights of the first format
/// that it takes, and those of the modules that modules.json and router_config.json name. Throws
/// Error, with what was found and what makes it readable, where there is no model, weights of other
/// formats alone, a part of the weights is not there, or nobody gives the size and the hash of a
/// file that is read.
std::vector<RemoteFile> files_to_read(const Listing& listing, const std::string& name,
                                      const FileAnswers& answers);

}  // namespace longformer::hub
