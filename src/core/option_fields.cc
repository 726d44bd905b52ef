#include "core/option_fields.h"

#include <algorithm>
#include <iterator>

namespace longformer {

void append(OptionFields& fields, OptionFields more) {
  std::ranges::move(more, std::back_inserter(fields));
}

OptionFields without(OptionFields fields, const std::vector<std::string_view>& names) {
  std::erase_if(fields, [&names](const OptionField& field) {
    return std::ranges::find(names, field.name) != names.end();
  });
  return fields;
}

}  // namespace longformer
