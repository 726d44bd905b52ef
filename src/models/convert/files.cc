#include "models/convert/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "longformer/text.h"
#include "text/byte_tokens.h"
#include "text/encoder_folder.h"
#include "text/tokenizer_spec.h"

namespace longformer::models {
namespace {

namespace fs = std::filesystem;
using formats::quote;
using Json = nlohmann::ordered_json;

/// An object of a file that may be absent: empty then.
Json read_object(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  Json value = formats::read_json(path.string());
  [[maybe_unused]] const formats::ConfigReader object(value, path.string());
  return value;
}

void copy_if_present(const fs::path& from, const fs::path& to) {
  if (fs::exists(from)) formats::write_file(to.string(), formats::read_file(from.string()));
}

/// A folder of modules.json: one plain name, because the file may not lead out of its folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of("/\\") == std::string::npos;
}

/// Files that a conversion writes, weights in any form: those of a former one must not outlive it.
bool is_own(const fs::path& name) {
  constexpr std::array kNames = {"config.json",
                                 "model.safetensors.index.json",
                                 "tokenizer.json",
                                 "pytorch_model.bin.index.json",
                                 "tokenizer_config.json",
                                 "modules.json",
                                 "config_sentence_transformers.json",
                                 "sentence_bert_config.json"};
  const std::string file = name.string();
  return std::ranges::count(kNames, file) + std::ranges::count(text::kVocabularyFiles, file) > 0 ||
         (file.starts_with("model") && file.ends_with(".safetensors")) ||
         (file.starts_with("pytorch_model") && file.ends_with(".bin"));
}

Json described(const std::string& token) {
  return {{"content", token}, {"lstrip", false},      {"normalized", false},
          {"rstrip", false},  {"single_word", false}, {"special", true}};
}

/// The text of a tokenizer.json with further added tokens.
std::string with_added_tokens(const std::string& text, const AddedTokens& added,
                              const std::string& path) {
  if (added.empty()) return text;
  Json tokenizer = formats::parse_json(text, path);
  Json& list = tokenizer["added_tokens"];
  for (const auto& [token, id] : added) {
    Json entry = {{"id", id}};
    entry.update(described(token));
    list.push_back(std::move(entry));
  }
  return tokenizer.dump();
}

/// Tells the files beside the vocabulary of further tokens: in the list of all added ones where
/// there is one, else as older versions of `transformers` did.
void tell_added_tokens(const TokenizerCopy& copy, Json& config) {
  if (copy.added.empty()) return;
  const bool listed = config.contains("added_tokens_decoder");
  Json numbers = read_object(copy.source / "added_tokens.json");
  for (const auto& [token, id] : copy.added) {
    if (listed) config["added_tokens_decoder"][std::to_string(id)] = described(token);
    numbers[token] = id;
    config["additional_special_tokens"].push_back(token);
  }
  if (!listed) write_json(copy.target / "added_tokens.json", numbers);
}

/// The class of tokenizer that config.json names; empty for none.
std::string class_of_config(const fs::path& folder) {
  const Json config = read_object(folder / "config.json");
  return formats::ConfigReader(config, (folder / "config.json").string())
      .string("tokenizer_class", "");
}

}  // namespace

void write_json(const fs::path& path, const Json& value) {
  formats::write_file(path.string(), value.dump(2) + "\n");
}

void copy_tokenizer_files(const fs::path& folder, const fs::path& target) {
  const fs::path source = text::encoder_folder(folder.string());
  const auto copy = [&](const char* name) { copy_if_present(source / name, target / name); };
  copy("tokenizer.json");
  copy("tokenizer_config.json");
  for (const char* name : text::kVocabularyFiles) copy(name);
}

void keep_tokenizer_class(const fs::path& folder, const fs::path& target) {
  const std::string source = text::encoder_folder(folder.string());
  const std::string name = text::read_folder_options(source).settings.name;
  Json config = read_object(target / "tokenizer_config.json");
  if (name.empty() || config.contains("tokenizer_class")) return;
  config["tokenizer_class"] = name;
  write_json(target / "tokenizer_config.json", config);
}

void copy_tokenizer(const TokenizerCopy& whole) {
  TokenizerCopy copy = whole;
  copy.source = text::encoder_folder(whole.source.string());
  if (!text::has_tokenizer(copy.source)) return;
  for (const char* name : text::kVocabularyFiles) {
    copy_if_present(copy.source / name, copy.target / name);
  }
  const fs::path tokenizer = copy.source / "tokenizer.json";
  if (fs::exists(tokenizer)) {
    const std::string text = formats::with_null_members(
        formats::read_file(tokenizer.string()), {"truncation", "padding"}, tokenizer.string());
    formats::write_file((copy.target / "tokenizer.json").string(),
                        with_added_tokens(text, copy.added, tokenizer.string()));
  }
  Json config = read_object(copy.source / "tokenizer_config.json");
  if (text::reads_bytes(copy.source)) {
    tell_added_tokens(copy, config);
    if (!config.empty()) write_json(copy.target / "tokenizer_config.json", config);
    return;
  }
  for (const char* key : {"max_len", "max_length", "name_or_path", "auto_map"}) config.erase(key);
  config["model_max_length"] = copy.max_tokens;
  // Without it transformers would take the class that belongs to model_type, which is RoBERTa's.
  if (!config.contains("tokenizer_class")) {
    const bool unigram =
        fs::exists(tokenizer) && Tokenizer::load(copy.source.string()).kind() == "Unigram";
    const text::ClassSettings settings = text::read_folder_options(copy.source).settings;
    const std::string named = class_of_config(copy.source);
    const bool has_settings = unigram && settings.add_prefix_space.has_value();
    config["tokenizer_class"] = !named.empty() ? named
                                : has_settings ? settings.name
                                : unigram      ? "PreTrainedTokenizerFast"
                                               : copy.tokenizer_class;
  }
  tell_added_tokens(copy, config);
  write_json(copy.target / "tokenizer_config.json", config);
}

void set_passage_context(const fs::path& folder, const std::string& context) {
  const fs::path path = folder / "config_sentence_transformers.json";
  Json config = read_object(path);
  config["passage_context"] = context;
  write_json(path, config);
}

void copy_sentence_transformers(const TokenizerCopy& copy) {
  const fs::path modules = copy.source / "modules.json";
  if (!fs::exists(modules)) return;
  const char* const options = "config_sentence_transformers.json";
  copy_if_present(copy.source / options, copy.target / options);
  const fs::path encoder = text::encoder_folder(copy.source.string());
  if (copy.max_tokens == 0) {
    copy_if_present(encoder / "sentence_bert_config.json",
                    copy.target / "sentence_bert_config.json");
  } else {
    Json config = read_object(encoder / "sentence_bert_config.json");
    config["max_seq_length"] = copy.max_tokens;
    write_json(copy.target / "sentence_bert_config.json", config);
  }
  Json list = formats::read_json(modules.string());
  require(list.is_array(), "{}: expected a list of modules, found {}", modules.string(),
          formats::shown(list));
  if (encoder == copy.source) {
    copy_if_present(modules, copy.target / "modules.json");
  } else {
    // The encoder is written to the folder itself.
    list[0]["path"] = "";
    write_json(copy.target / "modules.json", list);
  }
  for (const Json& module : list) {
    const formats::ConfigReader reader(module, modules.string());
    const std::string name = reader.string("path", "");
    if (name.empty()) continue;
    require(is_plain_name(name), "{}: path: expected the name of a folder beside it, found {}",
            modules.string(), quote(name));
    if (!fs::is_directory(copy.source / name)) continue;
    fs::create_directories(copy.target / name);
    for (const auto& entry : fs::directory_iterator(copy.source / name)) {
      if (!entry.is_regular_file()) continue;
      copy_if_present(entry.path(), copy.target / name / entry.path().filename());
    }
  }
}

void StagingFolder::carry_over() const {
  const fs::path& target = folder_.target();
  for (auto entry = fs::recursive_directory_iterator(target);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const fs::path name = entry->path().lexically_relative(target);
    const fs::path place = path() / name;
    if (is_own(name) || fs::exists(fs::symlink_status(place))) continue;
    if (entry->is_symlink()) {
      fs::copy_symlink(entry->path(), place);
    } else if (entry->is_directory()) {
      fs::create_directory(place, entry->path());
    } else {
      std::error_code refused;
      fs::create_hard_link(entry->path(), place, refused);
      if (refused) fs::copy_file(entry->path(), place);
    }
  }
}

void StagingFolder::commit() const {
  const fs::path& target = folder_.target();
  if (!fs::exists(target) || fs::is_empty(target)) {
    folder_.commit();
    return;
  }
  carry_over();
  folder_.sync();
  const fs::path& fresh = path();
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return;
  // Some file systems cannot exchange two names: then there is a moment with neither.
  require(errno == EINVAL || errno == ENOSYS, "{}: could not be replaced: {}", target.string(),
          std::generic_category().message(errno));
  const fs::path old = fresh.string() + ".old";
  fs::rename(target, old);
  std::error_code failure;
  fs::rename(fresh, target, failure);
  if (failure) {
    fs::rename(old, target);
    fail("{}: could not be replaced: {}", target.string(), failure.message());
  }
  fs::remove_all(old);
}

}  // namespace longformer::models
