my (%count, %pair, $last); open(my $in, '<', 'text.txt') or die;
while (<$in>) { last if $. > 4000; for my $w (/([a-z]+)/g) { $count{$w}++; $pair{"$last $w"}++ if $last; $last = $w } }
my @top = (sort { $pair{$b} <=> $pair{$a} || $a cmp $b } keys %pair)[0 .. 9];
print "$_ $pair{$_}\n" for @top;
