#include "hub/files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/error.h"
#include "formats/json.h"
#include "hub/names.h"

namespace longformer::hub {
namespace {

using Json = nlohmann::ordered_json;
using formats::quote;
using formats::shown;

/// Read in every folder of a model.
constexpr std::array<std::string_view, 17> kSmallFiles = {"config.json",
                                                          "generation_config.json",
                                                          "tokenizer.json",
                                                          "tokenizer_config.json",
                                                          "special_tokens_map.json",
                                                          "added_tokens.json",
                                                          "modules.json",
                                                          "config_sentence_transformers.json",
                                                          "sentence_bert_config.json",
                                                          "router_config.json",
                                                          "adapter_config.json",
                                                          "artifact.metadata",
                                                          "sparse_linear.pt",
                                                          "colbert_linear.pt",
                                                          "adapter_model.safetensors",
                                                          "state.json",
                                                          "state.safetensors"};

/// The first one that a folder has is read; an index names the files of its parts.
constexpr std::array<std::string_view, 4> kWeights = {
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json"};

/// Weights of other programs.
constexpr std::array<std::string_view, 8> kStrangeEndings = {".h5", ".msgpack", ".onnx",    ".gguf",
                                                             ".ot", ".ckpt",    ".mlmodel", ".pth"};

std::int64_t size_in(const Json& object) {
  const auto found = object.find("size");
  const bool is_size = found != object.end() && found->is_number_integer();
  return is_size ? found->get<std::int64_t>() : -1;
}

/// The file of an entry; none where its name leads out of the folder.
std::optional<RemoteFile> file_of(const Json& entry, const std::string& name) {
  require(entry.is_object(), "{}: expected a list of files, found {}", name, shown(entry));
  RemoteFile file{.name = text_in(entry, "rfilename")};
  if (!is_file_name(file.name)) return std::nullopt;
  const auto lfs = entry.find("lfs");
  const bool is_large = lfs != entry.end() && lfs->is_object();
  file.describe(size_in(is_large && lfs->contains("size") ? *lfs : entry),
                is_large ? text_in(*lfs, "sha256") : text_in(entry, "blobId"));
  if (is_large && file.hash.size() != 64) file.fault = "no SHA-256 of a large file";
  return file;
}

/// JSON of a file that a loader will read again and complain about.
Json parsed(const std::string& text) { return Json::parse(text, nullptr, false); }

std::string joined(const std::string& folder, std::string_view name) {
  return folder.empty() ? std::string(name) : folder + "/" + std::string(name);
}

/// Choice of files, folder by folder.
class Choice {
 public:
  Choice(const Listing& listing, const std::string& name, const FileAnswers& answers)
      : listing_(listing), name_(name), answers_(answers) {}

  std::vector<RemoteFile> files() {
    find_modules();
    for (const std::string& folder : folders_) {
      for (const std::string_view name : kSmallFiles) add(joined(folder, name));
      if (!has(joined(folder, "tokenizer.json"))) {
        for (const std::string_view name : kVocabularies) add(joined(folder, name));
      }
      // The first module has the weights of its encoder beside its configuration.
      if (!folder.empty() || !encoder_is_below_) add_weights(folder);
    }
    if (!has("adapter_model.safetensors")) add("adapter_model.bin");
    return std::move(chosen_);
  }

  bool has_weights() const { return has_weights_; }

 private:
  bool has(const std::string& name) const { return listing_.find(name) != nullptr; }

  void add(const std::string& name) {
    const RemoteFile* file = listing_.find(name);
    if (file == nullptr) return;
    if (name.starts_with("adapter_model.")) has_weights_ = true;
    chosen_.push_back(known(*file));
  }

  /// The file with its size and its hash. Throws Error where nobody gives them.
  RemoteFile known(RemoteFile file) const {
    if (!file.fault.empty()) answers_.describe(file);
    require(file.fault.empty(),
            "{}: expected the size and the hash of {}, in the list of files or in the head of its "
            "answer, found {}",
            name_, quote(file.name), file.fault);
    return file;
  }

  void add_weights(const std::string& folder) {
    const auto weights = std::ranges::find_if(
        kWeights, [&](std::string_view one) { return has(joined(folder, one)); });
    if (weights == kWeights.end()) return;
    has_weights_ = true;
    add(joined(folder, *weights));
    if (!weights->ends_with(".index.json")) return;
    const Json index = *json_of(joined(folder, *weights));
    const auto map = index.is_object() ? index.find("weight_map") : index.end();
    if (map == index.end() || !map->is_object()) return;
    std::set<std::string> parts;
    for (const Json& part : *map) {
      if (part.is_string()) parts.insert(part.get<std::string>());
    }
    for (const std::string& part : parts) {
      require(has(joined(folder, part)), "{}: {}: expected files of the repository, found {}",
              name_, joined(folder, *weights), quote(part));
      add(joined(folder, part));
    }
  }

  std::optional<Json> json_of(const std::string& name) const {
    const RemoteFile* file = listing_.find(name);
    if (file == nullptr) return std::nullopt;
    return parsed(answers_.text(known(*file)));
  }

  void add_folder(const std::string& folder) {
    const bool is_new = std::ranges::find(folders_, folder) == folders_.end();
    if (is_new && is_file_name(folder)) folders_.push_back(folder);
  }

  /// The root, and the folders of modules; 1_Pooling is read where no list names the modules.
  void find_modules() {
    const auto modules = json_of("modules.json");
    if (!modules || !modules->is_array()) return add_folder("1_Pooling");
    for (const Json& module : *modules) {
      const std::string path = text_in(module, "path");
      if (!path.empty()) add_folder(path);
      if (text_in(module, "type").ends_with(".Router")) add_routes(path);
    }
    if (modules->empty()) return;
    const std::string first = text_in(modules->front(), "path");
    encoder_is_below_ = !first.empty() &&
                        (has(joined(first, "config.json")) || has(joined(first, "tokenizer.json")));
  }

  void add_routes(const std::string& folder) {
    const auto config = json_of(joined(folder, "router_config.json"));
    if (!config || !config->is_object()) return;
    const auto structure = config->find("structure");
    if (structure == config->end() || !structure->is_object()) return;
    for (const auto& [role, names] : structure->items()) {
      for (const Json& name : names) {
        if (name.is_string() && !name.get<std::string>().empty()) {
          add_folder(joined(folder, name.get<std::string>()));
        }
      }
    }
  }

  const Listing& listing_;
  const std::string& name_;
  const FileAnswers& answers_;
  std::vector<std::string> folders_ = {""};
  std::vector<RemoteFile> chosen_;
  bool encoder_is_below_ = false;
  bool has_weights_ = false;
};

}  // namespace

std::string text_in(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void RemoteFile::describe(std::int64_t size_of_it, std::string hash_of_it) {
  size = size_of_it;
  hash = std::move(hash_of_it);
  // Sums of sizes stay far below the end of the numbers.
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 45;
  const bool is_hash = is_hexadecimal(hash, 64) || is_hexadecimal(hash, 40);
  const bool is_known = is_hash && size >= 0 && size <= kMostBytes;
  fault = is_known ? "" : fmt::format("size {} and {}", size, quote(hash));
}

const RemoteFile* Listing::find(std::string_view name) const {
  const auto found = std::ranges::find(files, name, &RemoteFile::name);
  return found == files.end() ? nullptr : &*found;
}

Listing parse_listing(std::string_view json, const std::string& name) {
  const Json answer = formats::parse_json_data(json, name + ": the answer of the Hub");
  Listing listing{.commit = text_in(answer, "sha")};
  require(is_commit(listing.commit), "{}: expected the Hub's description of a model, found {}",
          name, shown(answer));
  const auto siblings = answer.find("siblings");
  require(siblings != answer.end() && siblings->is_array(),
          "{}: expected the Hub's list of files, found none", name);
  std::set<std::string> names;
  for (const Json& entry : *siblings) {
    std::optional<RemoteFile> file = file_of(entry, name);
    if (!file) continue;
    listing.files.push_back(*std::move(file));
    require(names.insert(listing.files.back().name).second,
            "{}: expected each file once, found {} twice", name, quote(listing.files.back().name));
  }
  return listing;
}

std::vector<RemoteFile> files_to_read(const Listing& listing, const std::string& name,
                                      const FileAnswers& answers) {
  Choice choice(listing, name, answers);
  std::vector<RemoteFile> files = choice.files();
  const bool is_model = std::ranges::any_of(
      kConfigurations, [&](const char* one) { return listing.find(one) != nullptr; });
  require(is_model, "{}: expected a model with config.json, found {} without one", name,
          listing.files.empty() ? "no files" : fmt::format("{} files", listing.files.size()));
  if (choice.has_weights()) return files;
  const auto strange = std::ranges::find_if(listing.files, [](const RemoteFile& file) {
    return std::ranges::any_of(
        kStrangeEndings, [&](std::string_view ending) { return file.name.ends_with(ending); });
  });
  require(strange == listing.files.end(),
          "{}: expected model.safetensors or pytorch_model.bin, found {}: load it with the program "
          "that wrote it (transformers 4: from_tf=True or from_flax=True) and save it with "
          "save_pretrained",
          name, strange == listing.files.end() ? "" : quote(strange->name));
  return files;
}

}  // namespace longformer::hub
