# Joins standard input and output with a Unix socket of the node: `connect PATH` calls it, `listen PATH` makes it and takes
# the first call. Needs nothing but perl-base, which every Debian has; kind's node images have no socat.
use strict;
use warnings;
use IO::Socket::UNIX;

my ($how, $path) = @ARGV;
my ($main, $child) = ($$);
$SIG{TERM} = $SIG{ALRM} = sub { exit };
END {
    if ($$ == $main) {
        kill 'KILL', $child if $child;
        unlink $path if $how eq 'listen';
    }
}

my $socket;
if ($how eq 'listen') {
    my $listener = IO::Socket::UNIX->new(Local => $path, Listen => 1) or die "listening at $path: $!\n";
    # Where the harness was killed meanwhile nobody may ever call.
    alarm 300;
    $socket = $listener->accept or die "being called at $path: $!\n";
    alarm 0;
} else {
    $socket = IO::Socket::UNIX->new(Peer => $path) or die "calling $path: $!\n";
}

sub carry {
    my ($from, $to) = @_;
    while (sysread $from, my $bytes, 65536) {
        my $written = 0;
        while ($written < length $bytes) {
            $written += syswrite($to, $bytes, length($bytes) - $written, $written) // return;
        }
    }
}

# Whichever side ends first ends both.
$child = fork // die "no second process: $!\n";
if ($child) {
    carry($socket, \*STDOUT);
} else {
    carry(\*STDIN, $socket);
    kill 'TERM', $main;
}
