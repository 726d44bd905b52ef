// Options as a JSON object, by their lists.
#pragma once

#include <string>

#include "formats/json.h"
#include "longformer/options.h"

namespace longformer::formats {

/// One member for each option, in the order of the list; absent values are null.
nlohmann::ordered_json json_of(const OptionFields& fields);

/// Reads the members of an object; an option without one keeps its value, and null is none. `name`
/// stands for the text in messages. Throws Error for a value of another type, and for a key that
/// is no option, with the nearest one.
void read_options(const OptionFields& fields, const nlohmann::ordered_json& object,
                  const std::string& name);

}  // namespace longformer::formats
