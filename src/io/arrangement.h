#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace addnorm::io {

/// Returns an arrangement with all its factors evaluated, as the text of one JSON object. Another
/// program can compute the arrangement from it without a name or a formula of the table.
///
/// The object has the number of `layers`, `d_model`, the `features` of a lane, the factors `enter`
/// of the embedding in each lane at the start, the slots `entry` and `final_norm`, the `exit`, and
/// one entry in `sites` for each Add & Norm, in order:
///
///     z  = read·R(X)                  read·carried if `reads_carried`; R: the slot `last_lane`
///     h  = before_scale·before(z);    f = inside(F(h));    u = update(f, z)
///     X′ = (x_1 … x_keeps, carry·X + write·u);             then `after` of the first lane
///
/// `sublayers` of F run in parallel. `read` has `reads` groups of `parts` rows; the rows of a group
/// are parts of one z's features, as are those of u. A mix has to × from numbers, row by row:
///
///     map(base + scale·act(weight·N(source)))
///
/// `learned` has the indices of the learned values of `base`, which go through `gate`. `weight` has
/// the weights' rows and columns, or is null, as `source` is "none". With `hidden`, which has rows
/// and columns too, GELU(hidden·N(source)) replaces N(source). A stream of one lane has the factors
/// `skip` and `gain`, of a constant or learned `form`, in place of `carry` and `write`, and is else
/// described alike.
///
/// `placement` is a description for parse_placements(). `lanes` is the number of lanes at the
/// start; 0 stands for the placement's own. Throws an Error for an arrangement that does not exist.
std::string arrangement_json(std::string_view placement, std::size_t layers, std::size_t lanes,
                             std::size_t d_model);

/// Returns the names of all placements and mixtures, in the table's order, as a JSON list.
std::string arrangement_names_json();

}  // namespace addnorm::io
