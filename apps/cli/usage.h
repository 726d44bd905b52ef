// Mistakes in using the program: the option that is wrong, by the name that was typed.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "flags.h"
#include "longformer/error.h"

namespace longformer::cli {

/// --max_length is --max-length: both spellings are in use for the same options elsewhere.
std::string normalized(std::string argument);

/// The flag of an option of the library: "--warmup-steps" for "training.warmup_steps".
std::string flag_of(const std::string& option);

/// The message with the name of its option that was typed.
std::string with_typed_option(const UsageError& error, const CLI::App& verb,
                              const std::vector<std::string>& typed);

/// An error of the parser has no fields: its message begins with the option.
std::string with_typed_option(const CLI::ParseError& error, const CLI::App& verb,
                              const std::vector<std::string>& typed);

/// The error as wrong usage, if it is about an option of the library whose value was typed.
std::optional<UsageError> usage_error_of(const Error& error, const CLI::App& verb,
                                         const std::vector<std::string>& typed);

}  // namespace longformer::cli
