"""The sections of a report, one file each: `@section(place)` over a function of the results."""
