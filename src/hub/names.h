// Names of models on the Hub: org/name, or name for the oldest ones, and a revision behind @.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace longformer::hub {

struct ModelName {
  std::string repository = {};
  /// A branch, a tag or a commit.
  std::string revision = "main";
};

/// The parts of "org/name@revision"; nothing is checked.
ModelName model_name(const std::string& text);

/// Whether a repository may be called so: one or two parts of letters, digits, `-`, `_` and `.`.
bool is_repository(std::string_view name);

/// Whether it names its owner too.
bool has_owner(std::string_view repository);

/// Branches may have slashes, but lead nowhere else.
bool is_revision(const std::filesystem::path& revision);

/// Whether a text is a whole commit, 40 digits of base 16.
bool is_commit(std::string_view text);

/// Whether it has only digits of base 16, and so many.
bool is_hexadecimal(std::string_view text, std::size_t digits);

/// Whether a file of a repository may be called so: a relative path that stays inside.
bool is_file_name(std::string_view name);

/// A text as part of an address, with %XX for what may not stand there.
std::string in_address(std::string_view text, bool keeps_slashes = false);

}  // namespace longformer::hub
