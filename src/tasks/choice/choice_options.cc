#include "engine/run/reading_fields.h"
#include "longformer/tasks.h"

namespace longformer {

OptionFields fields(ChooseOptions& options) {
  OptionFields all = reading_fields(options);
  all.push_back(max_length_field(options.max_length));
  return all;
}

}  // namespace longformer
