// Flags of options that the library describes.
#pragma once

#include <CLI/App.hpp>

#include "longformer/options.h"

namespace longformer::cli {

/// A flag for each option, under the headings and with the help and the bounds of the list. The
/// structs must outlive the verb.
void add_fields(CLI::App& verb, const OptionFields& fields);

}  // namespace longformer::cli
